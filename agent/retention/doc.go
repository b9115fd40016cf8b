// Package retention deletes homes that nobody has used for as long as they
// were to be kept.
//
// Its place in the walk: at the very end. When the last session that used a
// home has ended, agent/session writes on its claim when that was and for how
// long it is kept; both are in the member, so that this needs no hub.
//
// Invariants:
//   - Only a claim of ours that says both is ever deleted; one of which either
//     can't be read is kept.
//   - None is deleted that an assignment of the API server itself names.
//   - None is deleted at the first look: it must have been overdue for a while
//     of this process's own time, so that a clock that jumps when a member
//     boots costs nobody a home.
//   - What is deleted is the very claim that was looked at, unchanged.
package retention
