// Package placement decides which member of the fleet runs a session, and explains the
// decision (docs/design.md, sections 3 and 6).
//
// It is pure: the input is a Request, the current Candidates and a Ledger of reservations
// that no report shows yet; the output is a Decision. It reads no clock, starts no
// goroutine and does no I/O.
//
// A candidate passes the filters in the order of the pipeline (filters.go); the first that
// fails is its verdict. The candidates that pass are ranked (score.go): regions that the
// session prefers, then the tiers of its policy's overflow, then regions and clusters that
// the policy prefers, then PreferNoSchedule taints, then the kind of the slot, then the policy's
// strategy, which counts a node with the image as one session less; ties break by a hash of the
// session and the member, so that no name is favored.
//
// A slot is of one of three kinds (growth.go): free, on a node that is usable; provisioning, on one
// that is being added; growable, on one that a node group of the member may add. Members without
// node groups have free slots only, and nothing of this affects them.
//
// The policy's caps on all members together are checked before any candidate: if one is
// reached, that is the answer. The Request contains the counts.
//
// Invariants:
//   - Capacity is counted by node, never as a sum: a session is placed only if a single
//     node has free capacity for all of it, and still fits every reserved session, even if
//     each one lands on the node where it costs most. Sessions whose templates require different
//     values of a node label share no node, but may share the limit of a node group.
//   - A reserved session lands on one node of any kind: the nodes that exist, and those that the
//     limits of the node groups permit, are never given to more sessions than fit on them.
//   - The decision does not depend on the order of the candidates.
//   - More capacity never makes a session unschedulable.
//   - A later tier of a policy's overflow is used only if no member of an earlier one fits,
//     unless the session itself prefers a region there.
//   - A session that can't be placed delays no other: placement holds no queue.
package placement
