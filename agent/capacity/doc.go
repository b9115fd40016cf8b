// Package capacity reports the free capacity of the member, for each template that the
// hub asks about (docs/design.md, section 6).
//
// Model is pure: nodes, Pods, assignments, classes and templates are set one by one, and
// Report returns what is free. Its state is a function of what was set, not of the order.
// Watcher is the thin I/O around it: informers that keep only what counts, a debounce,
// and the number of each report. Of a member of 5,000 nodes and 50,000 Pods it keeps some
// 80 MiB (BenchmarkMember).
//
// Invariants:
//   - An assignment counts as used from the moment it is stored, Pod or no
//     Pod; it and its Pod count once. One that is suspended, failed or out of time
//     counts only as long as its Pod exists.
//   - Other owners' Pods count as kube-scheduler counts them.
//   - Capacity is reported by node, in groups of equals, and rounded down: a report
//     never shows more than is free. The nodes with the most are not merged, so that
//     the hub knows the largest request that fits.
//   - A Pod without a node is assumed only where selectors, taints, its runtime class
//     and its home's storage class permit it.
//   - A template that the settings of the member's administrator do not permit
//     (agent/restriction) is reported as unavailable.
//   - Events that change nothing that counts cost no report.
//   - A report has a higher number than any before it, and every report from the
//     number that Stored returned counts the assignment.
package capacity
