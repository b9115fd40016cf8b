// Package hubservice connects the hub's Pods and its Service, which are objects of the
// hub's API server, with the processes of its replicas: Kubelet writes whether the Pods
// are Ready, and Service resolves the Service to a process, as kube-proxy does.
package hubservice
