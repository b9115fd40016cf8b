// Package capacity reports the free capacity of the member, for each template that the
// hub has sent (docs/design.md, section 6).
//
// Model is pure: nodes, Pods, assignments, classes and templates are set one by one, and
// Report returns what is free. Its state does not depend on the order.
// Watcher is the I/O around it: trimming informers, a debounce, and the number of each
// report. It keeps some 80 MiB for 5,000 nodes and 50,000 Pods (BenchmarkMember).
//
// Node groups (agent/nodegroup) add nodes that are not usable yet: growth has them while any is declared,
// settle assigns the unbound Pods to existing, provisioning and growable nodes, and what remains is reported
// by these kinds. The condition of a desktop's Pod states on which it depends.
//
// Invariants:
//   - An assignment uses capacity from the moment it is stored, with or without a Pod,
//     and counts once together with its Pod. One that is suspended, failed or out of
//     time counts only as long as its Pod exists.
//   - Other owners' Pods count as kube-scheduler counts them.
//   - Free capacity is reported by groups of equal nodes, rounded down, and never
//     overstated. The nodes with the most are not merged, so that the hub can compute
//     the largest request that fits.
//   - A Pod without a node is assumed only where selectors, taints, its runtime class
//     and its home's storage class permit it.
//   - A template that the settings of the member's administrator do not permit
//     (agent/restriction) is reported as unavailable.
//   - A node that is not usable yet is never free. Provisioning and growable nodes are never
//     more than the limits of their groups allow, and no two kinds count the same slot.
//   - A node group is not reported before its sources were read, or found to be unreadable.
//   - Without node groups, nothing of them is watched, evaluated or reported. Events are read only while Pods wait
//     for a node, those of one Pod of each template and group.
//   - An event that does not change the capacity causes no report.
//   - A report has a higher number than any before it, and every report from the
//     number that Stored returned counts the assignment.
package capacity
