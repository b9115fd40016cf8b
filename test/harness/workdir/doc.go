// Package workdir is the directory in which a fleet or a single control plane keeps all
// that it has, the TCP ports that are reserved for it, and the reaper of both.
//
// # Invariants
//
//   - The directory and its reservations are gone once Close was called or the process
//     that made it has ended, in whatever way (reaper.go), unless it is kept or detached.
//   - Two fleets of one machine never have a port in common (ports.go).
package workdir
