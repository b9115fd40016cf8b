// Package drain tracks the sessions of members that operators drain: which are moving to
// another member, which wait for the drain budget, and which are not moved and why. It
// does no I/O, and is rebuilt from the sessions' statuses.
package drain
