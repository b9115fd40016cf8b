// Package assignment makes the member's SessionAssignments equal the hub's
// last word, and says what came of it.
//
// Its place in the walk: agent/link hands it orders; it stores them in the
// member's API server, where agent/session takes over; what changes there goes
// back to agent/link as reports and results.
//
// Invariants:
//   - Stored is said only of what the API server has; Stopped only once the
//     API server itself, not a cache, has neither the assignment nor a Pod of
//     the session.
//   - An epoch that was withdrawn, or is lower than one that was seen, is
//     never stored.
//   - Refused is said only where nothing of the epoch runs.
//   - Nothing is stored that the settings of the member's administrator do not allow
//     (agent/restriction), neither by a first order nor by a change. A change of what
//     runs is not refused, which would say that nothing runs, but not carried out.
//   - The Secrets that came with an assignment are in the member before Stored
//     is said, where nothing stands in their way; what is in them is nowhere
//     else: not on the assignment, in no log, in no error.
//   - A spec that somebody has edited is never reported as the hub's.
//   - Ordered is said only of an epoch that this process was the first to store.
//     It holds O(the member's sessions).
//   - What can't be done now is kept, newest wins, and tried again; nothing is
//     answered meanwhile, and no session waits for another.
package assignment
