// Package retention deletes homes that were not used for their retention time.
//
// When the last session that used a home has ended, agent/session writes on its claim when
// that was and for how long it is kept; both are in the member, so that no hub is needed.
//
// Invariants:
//   - Only a claim of ours with both is ever deleted; one of which either can't be read
//     is kept.
//   - None is deleted that an assignment of the API server itself names.
//   - None is deleted at the first reconcile: it must have been overdue for a while of
//     this process's own time, so that a clock that jumps when a member boots deletes no
//     home.
//   - What is deleted is the very claim that was read, unchanged.
package retention
