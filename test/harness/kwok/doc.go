// Package kwok simulates the nodes of a cluster: the stages of KWOK, which define how Pods
// (pods.yaml) and nodes (nodes.yaml) behave, and Nodes, which adds nodes, and fails and
// restores them as a power cut does.
package kwok
