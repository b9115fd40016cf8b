// Package capacity knows what room the member has, for each template that the
// hub asks about, and reports it (docs/design.md, section 6).
//
// Model is pure: nodes, Pods, assignments, classes and templates are set one
// by one, and Report says what is left. Its state is a function of what was
// set, not of the order. Watcher is the thin I/O around it: informers that
// keep only what counts, a debounce, and the number that reports bear. Of a
// member of 5,000 nodes and 50,000 Pods it keeps some 80 MiB (BenchmarkMember).
//
// Invariants:
//   - An assignment counts as used from the moment it is stored, Pod or no
//     Pod; it and its Pod count once. One that is suspended, given up or
//     out of time counts only as long as its Pod is there.
//   - Other people's Pods count as kube-scheduler counts them.
//   - Room is told by node, in groups of equals, and rounded down: a report
//     never shows more than there is. The nodes with the most room are told as
//     they are, so that the hub knows the largest request that fits.
//   - What finds a node of its own accord lands, in thought, only where
//     selectors, taints, its runtime class and its home's storage class let it.
//   - A template that the settings of the member's administrator do not allow
//     (agent/restriction) is unavailable, and says so.
//   - What API servers tell and what changes nothing that counts costs no report.
//   - A report bears a higher number than any before it, and every report
//     from the number that Stored returned counts the assignment.
package capacity
