package children

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// The functions of this file change an existing object to the rendered one. They keep fields
// that are not rendered: API server defaults, and labels, annotations, owners and TLS of
// others.

// alignHome keeps the size, which Grow changes, and removes the time of the last use.
func alignHome(have, want *corev1.PersistentVolumeClaim) {
	alignMeta(&have.ObjectMeta, &want.ObjectMeta)
	delete(have.Annotations, api.AnnotationLastUse)
	if want.Annotations[api.AnnotationRetention] == "" {
		delete(have.Annotations, api.AnnotationRetention)
	}
}

func alignConfig(have, want *corev1.ConfigMap) {
	alignMeta(&have.ObjectMeta, &want.ObjectMeta)
	have.Data, have.BinaryData, have.Immutable = want.Data, want.BinaryData, want.Immutable
}

// alignPolicy and alignBudget remove the mark of agent/retention: the object is used again.
func alignPolicy(have, want *networkingv1.NetworkPolicy) {
	alignMeta(&have.ObjectMeta, &want.ObjectMeta)
	delete(have.Annotations, api.AnnotationLastUse)
	have.Spec = want.Spec
}

func alignBudget(have, want *policyv1.PodDisruptionBudget) {
	alignMeta(&have.ObjectMeta, &want.ObjectMeta)
	delete(have.Annotations, api.AnnotationLastUse)
	have.Spec = want.Spec
}

func alignService(have, want *corev1.Service) {
	alignMeta(&have.ObjectMeta, &want.ObjectMeta)
	have.Spec.Type = want.Spec.Type
	have.Spec.Selector = want.Spec.Selector
	have.Spec.Ports = want.Spec.Ports
	if have.Spec.Type == corev1.ServiceTypeClusterIP {
		have.Spec.ExternalName = ""
	}
}

func alignIngress(have, want *networkingv1.Ingress) {
	alignMeta(&have.ObjectMeta, &want.ObjectMeta)
	if want.Spec.IngressClassName != nil {
		// Absent means the cluster's default, which admission may fill in.
		have.Spec.IngressClassName = want.Spec.IngressClassName
	}
	have.Spec.Rules = want.Spec.Rules
	if len(want.Spec.TLS) > 0 {
		have.Spec.TLS = want.Spec.TLS
	}
}

// alignRoute replaces the spec, which is rendered with all defaults.
func alignRoute(have, want *gatewayv1.HTTPRoute) {
	alignMeta(&have.ObjectMeta, &want.ObjectMeta)
	have.Spec = want.Spec
}

// alignPod restores metadata and finalizers, and the image, the main mutable field of a Pod.
// A Pod with another DesktopHash keeps its hash and image.
func alignPod(have, want *corev1.Pod) {
	for _, finalizer := range want.Finalizers {
		controllerutil.AddFinalizer(have, finalizer)
	}
	if want.Labels[render.LabelNetworkPolicy] == "" {
		delete(have.Labels, render.LabelNetworkPolicy)
	}
	if have.Annotations[render.AnnotationDesktopHash] != want.Annotations[render.AnnotationDesktopHash] {
		want = want.DeepCopy()
		delete(want.Annotations, render.AnnotationDesktopHash)
		alignMeta(&have.ObjectMeta, &want.ObjectMeta)
		return
	}
	alignMeta(&have.ObjectMeta, &want.ObjectMeta)
	for i := range have.Spec.Containers {
		if have.Spec.Containers[i].Name == render.DesktopContainer {
			have.Spec.Containers[i].Image = want.Spec.Containers[0].Image
		}
	}
}

func alignMeta(have, want *metav1.ObjectMeta) {
	have.Labels = labels.Merge(have.Labels, want.Labels)
	have.Annotations = labels.Merge(have.Annotations, want.Annotations)
	for _, owner := range want.OwnerReferences {
		have.OwnerReferences = withOwner(have.OwnerReferences, owner)
	}
}

// withOwner replaces the reference to the owner, or adds it.
func withOwner(have []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	for i := range have {
		if have[i].UID == owner.UID {
			have[i] = owner
			return have
		}
	}
	return append(have, owner)
}
