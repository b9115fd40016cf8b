// Package boottime returns the time since a machine's boot, including suspension, the time
// between instants on a machine that may be paused, and the boot's ID.
package boottime
