// Package wallclock has another process read a wall clock that is set wrong, as after
// an NTP step or a pause of its virtual machine, without setting the machine's.
//
// A Go program reads the time from the vDSO, which the kernel maps into each process.
// Shift replaces that function in one process by one that calls the kernel and adds.
// It needs Linux on amd64 and the right to write to the process's memory.
package wallclock
