// Package member knows who the members are, how alive each is, and what each
// last reported.
//
// Its place in the walk of a session: it hands hub/placement the snapshot to
// decide on, and shows every member to the hub's controllers as a
// cluster.Cluster, of which the cache holds the SessionAssignments as the
// member's agent last reported them and the client's writes go to that
// agent's outbox. It is the multicluster-runtime Provider of those clusters,
// and the Directory that hub/link asks whom a certificate speaks for.
//
// Invariants:
//   - A member's cluster is engaged once, after its first inventory is in, and
//     stays engaged as long as its MemberCluster exists. While the member is
//     away Get returns ErrClusterNotFound; it never returns a cluster whose
//     cache has not synced.
//   - A reservation is made under the same lock as the decision that needs it, and
//     so is a session counted for the policy by which it goes there: caps of a
//     policy hold whatever the hub's cache shows.
//   - Memory per member is O(its sessions): the picture holds one small object
//     a session, and its watcher one pending entry a session.
//   - Only the hub's receive clock counts for liveness, and of it only
//     differences: a wall clock that is set changes nothing. liveness.go is pure.
//   - What this hub did not see go wrong is held against no member: hysteresis
//     and quarantine begin with a fall from Ready that it saw itself. A hub that
//     did not run for a while (a frozen process) has seen nothing: see look.
//   - A member whose access is revoked is Unreachable, and its connection ended,
//     before Register returns.
//   - A status says what changed; a stream that flaps while its agent goes on
//     renewing is not written of.
package member
