package main

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// nodeName returns the name of the node of a NodeClaim, and whether its instance is launched.
func nodeName(claim *v1.NodeClaim) (string, bool) {
	name, ok := strings.CutPrefix(claim.Status.ProviderID, providerPrefix)
	return name, ok && claim.StatusConditions().Get(v1.ConditionTypeLaunched).IsTrue()
}

// newNode returns the node with which an instance registers: without devices, which plugins
// register later, and with the taint that Karpenter removes once it has registered the node.
// KWOK makes it Ready.
func newNode(claim *v1.NodeClaim) *corev1.Node {
	name, _ := nodeName(claim)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: maps.Clone(claim.Labels), Annotations: maps.Clone(claim.Annotations),
		},
		Spec: corev1.NodeSpec{
			ProviderID: claim.Status.ProviderID, Taints: []corev1.Taint{v1.UnregisteredNoExecuteTaint},
		},
		Status: corev1.NodeStatus{
			Capacity: withoutDevices(claim.Status.Capacity), Allocatable: withoutDevices(claim.Status.Allocatable),
		},
	}
}

// isDevice reports whether a resource is an extended resource, such as nvidia.com/gpu.
func isDevice(name corev1.ResourceName) bool { return strings.Contains(string(name), "/") }

func withoutDevices(list corev1.ResourceList) corev1.ResourceList {
	kept := list.DeepCopy()
	maps.DeleteFunc(kept, func(name corev1.ResourceName, _ resource.Quantity) bool { return isDevice(name) })
	return kept
}

// hasDevices reports whether a node has all devices of its instance.
func hasDevices(claim *v1.NodeClaim, node *corev1.Node) bool {
	for name := range claim.Status.Allocatable {
		if _, ok := node.Status.Allocatable[name]; isDevice(name) && !ok {
			return false
		}
	}
	return true
}

// addDevices adds the devices of an instance to its node.
func addDevices(claim *v1.NodeClaim, node *corev1.Node) {
	for name, quantity := range claim.Status.Allocatable {
		if isDevice(name) {
			node.Status.Allocatable[name] = quantity.DeepCopy()
		}
	}
	for name, quantity := range claim.Status.Capacity {
		if isDevice(name) {
			node.Status.Capacity[name] = quantity.DeepCopy()
		}
	}
}

// hasStartupTaints reports whether startup taints are to be removed from a node: Karpenter adds
// them when it registers the node.
func hasStartupTaints(claim *v1.NodeClaim, node *corev1.Node) bool {
	return node.Labels[v1.NodeRegisteredLabelKey] == "true" && slices.ContainsFunc(node.Spec.Taints, isStartupTaint(claim))
}

// removeStartupTaints removes the startup taints from a node.
func removeStartupTaints(claim *v1.NodeClaim, node *corev1.Node) {
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isStartupTaint(claim))
}

func isStartupTaint(claim *v1.NodeClaim) func(corev1.Taint) bool {
	return func(taint corev1.Taint) bool {
		return slices.ContainsFunc(claim.Spec.StartupTaints, func(s corev1.Taint) bool { return s.MatchTaint(&taint) })
	}
}
