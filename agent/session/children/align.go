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

// aligned returns a copy of an existing object that is as rendered. It has no time of the last
// use, after which agent/retention removes unused objects.
func (k Kind[T]) aligned(have, want T) T {
	have = have.DeepCopyObject().(T)
	k.align(have, want)
	have.SetLabels(labels.Merge(have.GetLabels(), want.GetLabels()))
	have.SetAnnotations(labels.Merge(have.GetAnnotations(), want.GetAnnotations()))
	delete(have.GetAnnotations(), api.AnnotationLastUse)
	owners := have.GetOwnerReferences()
	for _, owner := range want.GetOwnerReferences() {
		owners = withOwner(owners, owner)
	}
	have.SetOwnerReferences(owners)
	return have
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

// alignHome keeps the size, which Grow changes.
func alignHome(have, want *corev1.PersistentVolumeClaim) {
	if want.Annotations[api.AnnotationRetention] == "" {
		delete(have.Annotations, api.AnnotationRetention)
	}
}

func alignConfig(have, want *corev1.ConfigMap) {
	have.Data, have.BinaryData, have.Immutable = want.Data, want.BinaryData, want.Immutable
}

func alignPolicy(have, want *networkingv1.NetworkPolicy) { have.Spec = want.Spec }

func alignBudget(have, want *policyv1.PodDisruptionBudget) { have.Spec = want.Spec }

func alignService(have, want *corev1.Service) {
	have.Spec.Type = want.Spec.Type
	have.Spec.Selector = want.Spec.Selector
	have.Spec.Ports = want.Spec.Ports
	if have.Spec.Type == corev1.ServiceTypeClusterIP {
		have.Spec.ExternalName = ""
	}
}

func alignIngress(have, want *networkingv1.Ingress) {
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
func alignRoute(have, want *gatewayv1.HTTPRoute) { have.Spec = want.Spec }

// alignPod restores finalizers, and the image, the main mutable field of a Pod. A Pod with
// another DesktopHash keeps its hash and image.
func alignPod(have, want *corev1.Pod) {
	for _, finalizer := range want.Finalizers {
		controllerutil.AddFinalizer(have, finalizer)
	}
	if want.Labels[render.LabelNetworkPolicy] == "" {
		delete(have.Labels, render.LabelNetworkPolicy)
	}
	if have.Annotations[render.AnnotationDesktopHash] != want.Annotations[render.AnnotationDesktopHash] {
		delete(want.Annotations, render.AnnotationDesktopHash) // not to be restored
		return
	}
	for i := range have.Spec.Containers {
		if have.Spec.Containers[i].Name == render.DesktopContainer {
			have.Spec.Containers[i].Image = want.Spec.Containers[0].Image
		}
	}
}
