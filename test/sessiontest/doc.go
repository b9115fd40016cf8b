// Package sessiontest builds sessions, conditions and reports for the tests of the
// packages that decide on sessions.
package sessiontest
