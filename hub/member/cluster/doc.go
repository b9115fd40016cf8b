// Package cluster presents every member to the hub's controllers as a cluster.Cluster: its
// cache has the SessionAssignments that the member's agent last reported, and its client
// writes to that agent's outbox. The package is the multicluster-runtime Provider of those
// clusters. Members are never dialed.
//
// Invariants:
//   - A member's cluster is engaged once, after its first inventory is complete, and stays
//     engaged as long as its MemberCluster exists. While the member is unavailable Get
//     returns ErrClusterNotFound; it never returns a cluster whose cache has not synced.
//   - Memory per member is O(its sessions): the cache has one small object per session, and
//     there is no queue. Reports of sessions that are unknown to the hub have their own
//     bounds.
//   - The cache calls the hub's registry under its own lock, never the other way around, and
//     the handlers of controllers without it.
package cluster
