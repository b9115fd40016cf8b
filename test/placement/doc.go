// Package placement tests where a fleet puts sessions, on real control planes:
// kube-scheduler and simulated nodes in the members, hub and agents as real
// processes. What fits is decided by kube-scheduler, not by the tests.
//
// Members have no nodes of their own. A spec brings a pool of them, which its
// templates choose by label, so that specs use no other nodes; and every
// pool has other Pods that fragment its capacity, and others that are created and
// deleted all the time (pool_test.go). A watch of every API server records all
// changes (watch_test.go): every spec requires that no Pod of a session
// was ever unschedulable, unless the spec is about such a Pod.
//
// Nothing depends on milliseconds. Where a test requires that an event was the cause,
// the bound is far below the 30 s after which a session is rechecked anyway.
package placement
