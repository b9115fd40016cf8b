// Package boottime reads the clock of a machine's boot, which goes on while the machine is
// suspended and is never set, and names the boot.
package boottime
