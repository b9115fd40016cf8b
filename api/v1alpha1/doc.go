// Package v1alpha1 is the user's contract: the kinds of group vdi.kasm.io,
// their validation, conditions, labels and names. It holds data and pure
// functions of that data, and nothing that does I/O.
//
// On the hub live VDISession, VDITemplate, VDIHome, MemberCluster and
// PlacementPolicy. SessionAssignment lives in members only: it is the hub's
// desired state of one session in a member, a kind of its own so that the hub's own
// cluster can be a member too.
//
// +kubebuilder:object:generate=true
// +groupName=vdi.kasm.io
package v1alpha1
