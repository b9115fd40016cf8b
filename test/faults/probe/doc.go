// Package probe has sessions beside the workload's that only the fleet acts upon. A scenario
// checks in the API servers and in the container logs where each of them runs, and since when.
package probe
