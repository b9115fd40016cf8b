// Package drain tracks the sessions of members that operators drain: which are moving to
// another member, which wait for their turn, and which stay and why. It does no I/O, and is
// rebuilt from the sessions' statuses.
package drain
