// Package clusterautoscaler simulates cluster-autoscaler and its cloud for one cluster: a loop that adds
// nodes for pending Pods, and reports in cluster-autoscaler's own format. cluster-autoscaler itself is not
// available as a Go module.
//
// Each scan does what cluster-autoscaler does: Pods that kube-scheduler found no node for, and that fit on
// no node that exists or is requested, are packed on new nodes of the groups, up to their maximum sizes;
// Pods that no group helps get the event NotTriggerScaleUp; a group whose cloud has no capacity is in
// backoff; and the ConfigMap cluster-autoscaler-status in kube-system is written. KWOK makes the nodes Ready.
//
// It does not remove nodes, and it compares requests, node selectors and taints of Pods only: not their
// affinity, topology spread, volumes or DaemonSets. Of several groups that fit, the first is chosen.
//
// # Invariants
//
//   - A group never has more nodes than its maximum size, nodes that are requested included.
//   - The cloud outlasts the autoscaler: a requested node registers also while no scan runs.
//   - Decisions and the status are pure functions of objects and time.
package clusterautoscaler
