// Package retention deletes homes that were not used for their retention time, and the
// NetworkPolicies and PodDisruptionBudgets that no desktop uses.
//
// When the last session that used a home has ended, agent/session annotates its claim with
// the time and the retention. Both are in the member: no hub is needed.
//
// Invariants:
//   - Only a claim of the agent with both annotations, which can be read, is deleted.
//   - No claim is deleted that an assignment in the API server, not a cache, names.
//   - A claim must have been overdue for a while by the process's monotonic clock, so that a
//     clock that jumps when a member boots deletes no home.
//   - An object is deleted only if it is unchanged since it was read.
//   - A NetworkPolicy or PodDisruptionBudget is marked before it is deleted, each only after
//     it was unused for a while, and agent/session removes the mark before it creates a
//     Pod: no Pod loses its isolation.
package retention
