// Package leadership labels the Pod of the hub's replica that leads.
//
// The agents' Service selects the label LabelRole, so that all replicas can be Ready and
// agents still connect to the one that listens. Role removes it from the other Pods.
// Which replica leads is decided by package election.
package leadership
