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
	Homes = Kind[*corev1.PersistentVolumeClaim]{Name: nameHome, otherOwner: otherOwnerOfHome, align: alignHome}
	// Pods run the desktop.
	Pods = Kind[*corev1.Pod]{Name: namePod, otherOwner: otherOwner[*corev1.Pod], align: alignPod}
	// ConfigMaps hold the desktop's variables and files.
	ConfigMaps = recreated("ConfigMap", alignConfig)
	// NetworkPolicies isolate the desktop.
	NetworkPolicies = recreated("NetworkPolicy", alignPolicy)
	// DisruptionBudgets keep the desktop from eviction.
	DisruptionBudgets = recreated("PodDisruptionBudget", alignBudget)
	// Services select the desktop's Pod.
	Services = recreated("Service", alignService)
	// Ingresses route the desktop's URL.
	Ingresses = recreated("Ingress", alignIngress)
	// HTTPRoutes route the desktop's URL in members with a Gateway.
	HTTPRoutes = recreated(nameRoute, alignRoute)
)

// recreated returns a kind that holds no data.
func recreated[T client.Object](name string, align func(have, want T)) Kind[T] {
	return Kind[T]{Name: name, otherOwner: otherOwner[T], align: align, recreate: true}
}

// Owns reports whether an object of this kind is the assignment's own.
func (k Kind[T]) Owns(a *api.SessionAssignment, o T) bool {
	return k.otherOwner(a, o) == ""
}

func isNil[T client.Object](o T) bool {
	var none T
	return client.Object(o) == client.Object(none)
}
