// Package watch observes a fleet for the checker, by clients of its own: nothing of the product is
// between.
//
//   - watcher.go: watches of every API server. reader.go: what they hold at this moment. facts.go:
//     an object as the checker sees it. audit.go: what deleted a Pod.
//   - snapshot.go: what both sides hold at one time, and whether they agree.
//   - runlog.go: what ran, by the container logs of the simulated kubelets (test/observer), whatever
//     the API servers hold.
package watch
