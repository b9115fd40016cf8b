// Package trim removes from objects in the hub's cache what the hub does not read, so
// that users cannot fill its memory.
package trim
