// Package cluster shows every member to the hub's controllers as a cluster.Cluster,
// of which the cache has the SessionAssignments as the member's agent last reported
// them, and the client writes to that agent's outbox. It is the multicluster-runtime
// Provider of those clusters. Nothing of them is ever dialed.
//
// Invariants:
//   - A member's cluster is engaged once, after its first inventory is in, and stays
//     engaged as long as its MemberCluster exists. While the member is away Get
//     returns ErrClusterNotFound; it never returns a cluster whose cache has not
//     synced.
//   - Memory per member is O(its sessions): the cache has one small object a session,
//     and its watcher one pending entry a session. What an agent reports of sessions
//     that the hub does not know is bounded besides.
//   - The cache calls the hub's registry under its own lock, never the other way
//     round.
package cluster
