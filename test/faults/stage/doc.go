// Package stage starts a fleet of real processes (test/harness) that can be broken: an emulated
// network between agents and hub and before API servers (package netem), a supervisor that
// restarts processes, as a kubelet would, and watches for the checker (package watch).
package stage
