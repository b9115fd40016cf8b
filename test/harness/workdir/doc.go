// Package workdir manages the directory of a fleet or a single control plane, the TCP ports
// that are reserved for it, and the reaper of both.
//
// # Invariants
//
//   - The directory and its reservations are removed by Close, or when the process that
//     created it has ended in any way (reaper.go), unless it is kept or detached.
//   - Two fleets of one machine never have a port in common (ports.go).
package workdir
