package children

import (
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Kind describes the children of one kind.
type Kind[T client.Object] struct {
	// Name of the kind in messages, logs, metrics and traces.
	Name string

	// otherOwner returns the owner of an object that the assignment does not own, as the end
	// of a sentence, and "" if it owns it.
	otherOwner func(*api.SessionAssignment, T) string
	// align changes an object to the rendered one except labels, annotations and owners, and
	// keeps additions of others. It may change the rendered object.
	align func(have, want T)
	// recreate is set for children without data: one that can't be repaired, such as an
	// immutable ConfigMap, is recreated.
	recreate bool
}

// The names of kinds.
const (
	nameHome  = "PersistentVolumeClaim"
	namePod   = "Pod"
	nameRoute = "HTTPRoute"
	// nameSize is the size of a home, whose denials are separate: a home that can't grow is
	// still used.
	nameSize = "PersistentVolumeClaimSize"
)

// The kinds of children.
var (
	// Homes are claims, whose ownership labels and an annotation decide.
	Homes = Kind[*corev1.PersistentVolumeClaim]{Name: nameHome, otherOwner: otherOwnerOfHome, align: alignHome}
	// Pods run the desktop.
	Pods = Kind[*corev1.Pod]{Name: namePod, otherOwner: otherOwner[*corev1.Pod], align: alignPod}
	// ConfigMaps hold the desktop's files.
	ConfigMaps = recreated("ConfigMap", otherOwner, alignConfig)
	// NetworkPolicies isolate the desktops of a namespace that require the same rules.
	NetworkPolicies = recreated("NetworkPolicy", otherOwnerOfShared, alignPolicy)
	// DisruptionBudgets keep the desktops of a namespace from eviction.
	DisruptionBudgets = recreated("PodDisruptionBudget", otherOwnerOfShared, alignBudget)
	// Services select the desktop's Pod.
	Services = recreated("Service", otherOwner, alignService)
	// Ingresses route the desktop's URL.
	Ingresses = recreated("Ingress", otherOwner, alignIngress)
	// HTTPRoutes route the desktop's URL in members with a Gateway.
	HTTPRoutes = recreated(nameRoute, otherOwner, alignRoute)
)

// recreated returns a kind without data.
func recreated[T client.Object](name string, otherOwner func(*api.SessionAssignment, T) string, align func(have, want T)) Kind[T] {
	return Kind[T]{Name: name, otherOwner: otherOwner, align: align, recreate: true}
}

// Owns reports whether there is an object of this kind, and the assignment owns it.
func (k Kind[T]) Owns(a *api.SessionAssignment, o T) bool {
	return !isNil(o) && k.otherOwner(a, o) == ""
}

func isNil[T client.Object](o T) bool {
	var none T
	return client.Object(o) == client.Object(none)
}
