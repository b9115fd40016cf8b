// Package nodegroup tracks the node groups of a member: the nodes that its autoscaler is adding, and
// how many more it may add (docs/design.md, section 6).
//
// Tracker is pure: groups as the MemberCluster declares them, nodes, the objects of Karpenter and the
// status of cluster-autoscaler are set one by one, and Groups returns what each group may still add. Reject
// records that an autoscaler adds no node for a class of Pods, which RejectionsOf reads from their events.
//
// Invariants:
//   - A group never adds more than its limits allow: nodes that exist, that are requested and that may be
//     added are together at most maxNodes, and within the limits of the source.
//   - A group without a limit, or whose source can't be read, adds nothing.
//   - A node that is not usable yet is provisioning, and neither free nor growable.
//   - A rejection of a Pod is of its class and the groups of that autoscaler, until these change. It exhausts no
//     group.
//   - An autoscaler that adds no node is found by level signals: what it does not do for a time.
package nodegroup
