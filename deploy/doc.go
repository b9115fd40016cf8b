// Package deploy holds the Helm charts, which are the source of everything that is
// installed in a cluster, and renders them for programs that install without Helm.
package deploy
