// Package leadership tells the agents' Service which replica of the hub leads.
//
// Role puts the label LabelRole on the Pod of the replica that
// leads, and takes it off the others. The Service for agents selects it, so that
// all replicas can be Ready and agents still find the one that listens.
// Which replica leads is decided by package election.
package leadership
