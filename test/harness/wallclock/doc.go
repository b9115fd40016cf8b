// Package wallclock shifts the wall clock that another process reads, as after an NTP step or
// a pause of its virtual machine, without setting that of the machine.
//
// A Go program reads the time from the vDSO, which the kernel maps into each process. Shift
// replaces that function in one process by one that calls the kernel and adds an offset. It
// needs Linux on amd64 and permission to write to the process's memory.
package wallclock
