// Package placement tests where a fleet puts sessions, on real control planes:
// kube-scheduler and simulated nodes in the members, hub and agents as real
// processes. What fits is decided by kube-scheduler, not by the tests.
//
// Members have no nodes of their own. A spec brings a pool of them, which its
// templates choose by label, so that specs use no other nodes; and every
// pool has other Pods on it that fragment its capacity, and
// others that come and go (pool_test.go). A watch of every API server sees all
// that happens on the way (watch_test.go): after every spec no Pod of a session
// was ever without a node, unless the spec set out to have one.
//
// Nothing is decided by milliseconds. Where a test requires that an event did it, the
// bound is far below the 30 s after which a session is rechecked anyhow.
package placement
