// Package placement decides which member of the fleet a session goes to, and
// explains it. It is stop 2 of the walk (docs/design.md, sections 3 and 6).
//
// It is pure: a Request, the Candidates as they are known now, and a Ledger
// of room that was given away and no report shows yet, go in; a Decision comes
// out. It reads no clock, starts nothing, and talks to nobody.
//
// A candidate passes the filters in the order of the pipeline (filters.go),
// the first that fails is its verdict. What passes is ranked (score.go): regions
// that the session prefers, then the tiers of its policy's overflow, then regions
// and clusters that the policy prefers, then taints that would rather be avoided,
// then whether the image is there already, then the policy's strategy; ties break
// by a hash of the session and the member, so that no name is favoured.
//
// The caps of a policy on all members together are asked before any candidate is:
// where one is reached, that is the answer. What they count comes with the
// Request.
//
// Invariants:
//   - Room is counted by node, never as a sum: a session is placed only where
//     some single node has room for all of it, and still has for each session
//     on its way there, even if every one landed on the node where it hurts
//     most.
//   - The decision does not depend on the order of the candidates.
//   - More room never makes a session unplaceable.
//   - A later tier of a policy's overflow is used only where no member of an
//     earlier one fits, unless the session itself prefers a region there.
//   - What one session lacks delays no other: nothing is held back here.
package placement
