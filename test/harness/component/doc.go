// Package component holds the command lines and configuration files of the components of
// a control plane: etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK.
//
// # Invariants
//
//   - Arguments and files depend on the Cluster alone, so a restarted component gets the
//     same ones.
package component
