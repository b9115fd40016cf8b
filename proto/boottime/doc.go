// Package boottime reads the clock of a machine's boot, which runs on while the machine
// is suspended and is never set, and names the boot.
package boottime
