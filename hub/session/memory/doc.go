// Package memory holds the leader's state of sessions that is not stored: one record for
// each session, until it is gone. All of it may be lost at any time: a leader begins
// without it. It does no I/O.
package memory
