// Package watch observes a fleet for the checker, with clients of its own and no code of the
// product in between.
//
//   - watcher.go: watches of every API server. reader.go: what they hold at this moment. facts.go:
//     an object in the checker's form. nodes.go: the nodes that a member's Karpenter adds. audit.go:
//     what deleted a Pod.
//   - snapshot.go: what both sides hold at one time, and whether they agree.
//   - runlog.go: what ran by the container logs of the simulated kubelets (test/observer), whatever
//     the API servers hold.
package watch
