// Package spawn starts the processes of a fleet so that they end with the one that
// started them, whatever ends that one.
package spawn
