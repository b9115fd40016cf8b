// Package children creates, repairs and removes the objects that a
// SessionAssignment needs in its member: claim, ConfigMap, NetworkPolicy,
// PodDisruptionBudget, Pod, Service, Ingress and HTTPRoute.
//
// A Kind describes the objects of one kind: how ownership is decided and which fields count
// as drift. A Set has the children of one assignment in one reconcile; its Memory lasts from
// one reconcile to the next. The steps of agent/session decide which children exist, and
// agent/render their content.
//
// Invariants:
//   - An object that the assignment does not own, or share with others of its namespace, is
//     never changed or removed, whatever its name: Ensure returns a problem with reason NameTaken.
//   - API server defaults and additions of others are not drift.
//   - A child without drift costs no write. Repairs of the same child, and denied requests,
//     are retried with backoff.
//   - No guarantee depends on a Memory: losing it costs a few writes. client-go's mutation
//     cache would keep 100 writes of all sessions, fewer than a burst.
package children
