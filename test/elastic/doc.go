// Package elastic tests members that add nodes for sessions, on real control planes: hub, agents,
// kube-schedulers and Karpenter are real processes, and Karpenter's cloud, its nodes and their kubelets
// are simulated. What fits, and what is added, is decided by kube-scheduler and Karpenter.
//
// The cluster-autoscaler of some specs is simulated, since it is not available as a Go module.
//
// Each spec has a fleet of its own, or NodePools of its own in a fleet, since what Karpenter has added
// stays. Karpenter's timeouts are not scaled, so the fleet's are not either.
package elastic
