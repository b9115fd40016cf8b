package children

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Kind describes the children of one kind.
type Kind[T client.Object] struct {
	// Name of the kind in messages, logs, metrics and traces.
	Name string

	empty func() T
	// otherOwner returns who owns the object if the assignment does not, as the
	// end of a sentence, and "" if the assignment owns it.
	otherOwner func(*api.SessionAssignment, T) string
	// align makes an object agree with what was rendered, and keeps what others
	// have added.
	align func(have, want T)
	// recreate is set for children that hold no data: one that can't be repaired,
	// such as an immutable ConfigMap, is removed and created again.
	recreate bool
}

// The names of kinds.
const (
	nameHome  = "PersistentVolumeClaim"
	namePod   = "Pod"
	nameRoute = "HTTPRoute"
	// nameSize is the size of a home, whose denials are remembered apart: a home
	// that can't grow is still used.
	nameSize = "PersistentVolumeClaimSize"
)

// The kinds of children.
var (
	// Homes are claims, which have no owner: labels and an annotation decide.
	Homes = Kind[*corev1.PersistentVolumeClaim]{
		Name: nameHome, empty: func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} },
		otherOwner: otherOwnerOfHome, align: alignHome,
	}
	// Pods run the desktop.
	Pods = Kind[*corev1.Pod]{
		Name: namePod, empty: func() *corev1.Pod { return &corev1.Pod{} },
		otherOwner: otherOwner[*corev1.Pod], align: alignPod,
	}
	// ConfigMaps hold the desktop's variables and files.
	ConfigMaps = Kind[*corev1.ConfigMap]{
		Name: "ConfigMap", empty: func() *corev1.ConfigMap { return &corev1.ConfigMap{} },
		otherOwner: otherOwner[*corev1.ConfigMap], align: alignConfig, recreate: true,
	}
	// NetworkPolicies isolate the desktop.
	NetworkPolicies = Kind[*networkingv1.NetworkPolicy]{
		Name: "NetworkPolicy", empty: func() *networkingv1.NetworkPolicy { return &networkingv1.NetworkPolicy{} },
		otherOwner: otherOwner[*networkingv1.NetworkPolicy], align: alignPolicy, recreate: true,
	}
	// DisruptionBudgets keep the desktop from eviction.
	DisruptionBudgets = Kind[*policyv1.PodDisruptionBudget]{
		Name: "PodDisruptionBudget", empty: func() *policyv1.PodDisruptionBudget { return &policyv1.PodDisruptionBudget{} },
		otherOwner: otherOwner[*policyv1.PodDisruptionBudget], align: alignBudget, recreate: true,
	}
	// Services select the desktop's Pod.
	Services = Kind[*corev1.Service]{
		Name: "Service", empty: func() *corev1.Service { return &corev1.Service{} },
		otherOwner: otherOwner[*corev1.Service], align: alignService, recreate: true,
	}
	// Ingresses route the desktop's URL.
	Ingresses = Kind[*networkingv1.Ingress]{
		Name: "Ingress", empty: func() *networkingv1.Ingress { return &networkingv1.Ingress{} },
		otherOwner: otherOwner[*networkingv1.Ingress], align: alignIngress, recreate: true,
	}
	// HTTPRoutes route the desktop's URL in members with a Gateway.
	HTTPRoutes = Kind[*gatewayv1.HTTPRoute]{
		Name: nameRoute, empty: func() *gatewayv1.HTTPRoute { return &gatewayv1.HTTPRoute{} },
		otherOwner: otherOwner[*gatewayv1.HTTPRoute], align: alignRoute, recreate: true,
	}
)

// Owns reports whether an object of this kind is the assignment's own.
func (k Kind[T]) Owns(a *api.SessionAssignment, o T) bool {
	return k.otherOwner(a, o) == ""
}

func isNil[T client.Object](o T) bool {
	var none T
	return client.Object(o) == client.Object(none)
}
