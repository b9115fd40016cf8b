// Package boottime returns the time since a machine's boot, including suspension, and the
// boot's ID.
package boottime
