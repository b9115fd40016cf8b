// Package trim keeps the hub's cache small: it removes from objects what the hub does not read, so
// that users cannot fill its memory.
package trim
