// Package probe has sessions beside the workload's that only the fleet acts upon. A scenario knows
// of each where it must run, and since when, and compares that with the API servers and with the
// container logs.
package probe
