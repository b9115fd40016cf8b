// Package children creates, repairs and removes the objects that a
// SessionAssignment needs in its member: claim, ConfigMap, NetworkPolicy,
// PodDisruptionBudget, Pod, Service, Ingress and HTTPRoute.
//
// A Kind describes the objects of one kind: how ownership is decided and which
// fields count as drift. A Set is the children of one assignment in one
// reconcile; its Memory lasts from one reconcile to the next. When and whether a
// child is wanted is for the steps of agent/session to decide, and its content
// for agent/render.
//
// Invariants:
//   - An object that the assignment does not own is never changed or removed,
//     whatever its name: Ensure returns a problem with reason NameTaken.
//   - What the API server fills in and what others add is not drift.
//   - A child that is as rendered costs no write. Repairs of the same child, and
//     requests that the API server denied, are retried with backoff.
//   - Nothing that must be true depends on a Memory: losing it costs a few
//     writes. client-go's mutation cache would keep 100 writes of all sessions,
//     fewer than a burst makes before the cache shows them.
package children
