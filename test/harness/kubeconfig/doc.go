// Package kubeconfig issues client certificates for the users of a cluster, and writes
// kubeconfigs with them.
package kubeconfig
