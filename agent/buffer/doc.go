// Package buffer keeps slots free ahead of demand: one Deployment in the agent's namespace for each buffer, whose
// Pods request what a session of its template requests, and do nothing (docs/design.md, section 6).
//
// kube-scheduler preempts such a Pod for a desktop. Its replacement is pending, and makes the member's
// autoscaler add a node. What the member can hold of a buffer comes from agent/capacity, for which these
// Pods use nothing.
//
// deployment.go and state.go are pure; Keeper is the I/O around them.
//
// Invariants:
//   - A Deployment has at most as many replicas as there are slots, and as fit on nodes that exist, that are
//     being added, and that node groups may add.
//   - Nothing is changed before the hub has sent which buffers there are, nor for a buffer whose template the hub
//     has not read: they survive restarts of hub and agent.
//   - In a member without buffers, nothing is requested or watched.
//   - The PriorityClass owns the Deployments: without it, Kubernetes deletes them.
package buffer
