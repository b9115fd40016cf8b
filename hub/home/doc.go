// Package home maintains the records of homes that the sessions of a user share (VDIHome), so
// that each home has one writer, whatever the member.
//
// The record is written before the session's status states that the session runs with
// the home, and names the session and the run that it was claimed for. It is released
// only by a controller that sees the session at that run or beyond, and stopped: an older
// object, or one from between the two writes, shows the session before that run. Every
// write of the record is locked to the version that was read.
package home
