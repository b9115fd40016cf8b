// Package checker compares what the API servers of a fleet hold with the guarantees of docs/design.md,
// section 9: G1 to G9, and G14. It is pure: package watch passes it every observation with its time,
// and it reads an API server only by an APIReader, to confirm a suspicion.
//
//   - state.go: what was last observed of each object. outages.go: which members a scenario took
//     from the hub, and what follows from that. journal.go: the violations, and what was observed
//     last of each session.
//   - checker.go: each state of a session and of an assignment (G2, G3, G5). deletions.go: Pods and
//     what disappears (G1, G4). failover.go: sessions that did not wait for their stop (G1).
//   - nodes.go: how many nodes and sessions a member has whose autoscaler adds nodes (G14).
//   - suspicion.go: an apparent violation that may be a watch that lags.
package checker
