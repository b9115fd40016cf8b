// Package assignment makes the member's SessionAssignments equal the hub's orders, and
// reports the results.
//
// agent/link receives the orders; a controller, keyed by the session's UID, stores them
// in the member's API server, where agent/session reconciles them; changes there are
// sent to agent/link as reports and results. Which orders are pending and which epochs
// may still be stored is pure (pending.go).
//
// Invariants:
//   - Stored is reported only for assignments that the API server has; Stopped only once the API
//     server itself, not a cache, has neither the assignment nor a Pod of the session.
//   - An epoch that was withdrawn, or is lower than one that was seen, is
//     never stored.
//   - Refused is reported only where nothing of the epoch runs.
//   - Nothing is stored that the settings of the member's administrator do not permit
//     (agent/restriction), neither by a first order nor by a change. A change of a
//     running session is not refused, which would mean that nothing runs, but ignored.
//   - The Secrets that came with an assignment are in the member before Stored is
//     reported, unless they can't be stored; their content is not on the assignment, in
//     no log and in no error.
//   - A spec that was edited is never reported as the hub's.
//   - Ordered is true only of an epoch that this process was the first to store. It
//     holds O(the member's sessions).
//   - An order that can't be carried out yet stays pending and is retried, and a newer
//     one replaces it; it is answered only then. No session waits for another, except that no
//     more desktops are started at once than there are workers (starts.go).
package assignment
