// Package v1alpha1 defines the API group vdi.kasm.io: its kinds with their validation,
// conditions, labels and names. It consists of data and pure functions of that data.
//
// VDISession, VDITemplate, VDIHome, MemberCluster, PlacementPolicy and PlacementReview are
// on the hub. SessionAssignment, the desired state of one session in a member, is only in
// members: it is a separate kind so that the hub's own cluster can be a member.
//
// +kubebuilder:object:generate=true
// +groupName=vdi.kasm.io
package v1alpha1
