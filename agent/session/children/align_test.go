package children

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestAlignKeepsWhatOthersAdd(t *testing.T) {
	a := desktop()
	service := render.Service(a)
	service.Spec.ClusterIP, service.Spec.SessionAffinity = "10.0.0.1", corev1.ServiceAffinityNone
	service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	service.Labels["someone"], service.Annotations["someone"] = "else", "else"
	service.OwnerReferences = append(service.OwnerReferences, metav1.OwnerReference{UID: "other"})
	before := service.DeepCopy()
	service = Services.aligned(service, render.Service(a))
	if !equality.Semantic.DeepEqual(before, service) {
		t.Errorf("the Service changed: %v", service)
	}

	ingress := render.Ingress(a, render.Network{})
	ingress.Spec.IngressClassName = ptr.To("the-default")
	ingress.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "x"}}
	beforeIngress := ingress.DeepCopy()
	ingress = Ingresses.aligned(ingress, render.Ingress(a, render.Network{}))
	if !equality.Semantic.DeepEqual(beforeIngress, ingress) {
		t.Errorf("the Ingress changed: %v", ingress)
	}

	p := render.Pod(a)
	p.Spec.NodeName, p.Spec.ServiceAccountName = "n", "default"
	p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready"}}
	beforePod := p.DeepCopy()
	p = Pods.aligned(p, render.Pod(a))
	if !equality.Semantic.DeepEqual(beforePod, p) {
		t.Errorf("the Pod changed: %v", p)
	}
}

func TestAlignUndoesDrift(t *testing.T) {
	a := desktop(func(a *api.SessionAssignment) { a.Spec.Desktop.IngressClassName = "nginx" })
	service := render.Service(a)
	service.Spec.Selector, service.Spec.Ports[0].TargetPort = nil, intstr.FromInt32(1)
	service.Labels, service.OwnerReferences = nil, nil
	service = Services.aligned(service, render.Service(a))
	if want := render.Service(a); !equality.Semantic.DeepEqual(want, service) {
		t.Errorf("the Service is %v, want %v", service, want)
	}
	ingress := render.Ingress(a, render.Network{})
	ingress.Spec.IngressClassName, ingress.Spec.Rules = ptr.To("other"), nil
	ingress = Ingresses.aligned(ingress, render.Ingress(a, render.Network{}))
	if want := render.Ingress(a, render.Network{}); !equality.Semantic.DeepEqual(want, ingress) {
		t.Errorf("the Ingress is %v, want %v", ingress, want)
	}
	p := render.Pod(a)
	p.Spec.Containers[0].Image, p.Annotations[api.AnnotationEpoch] = "evil", "1"
	p = Pods.aligned(p, render.Pod(a))
	if want := render.Pod(a); !equality.Semantic.DeepEqual(want, p) {
		t.Errorf("the Pod is %v, want %v", p, want)
	}
}

func TestAPodOfAnotherDesktopKeepsItsImage(t *testing.T) {
	a := desktop()
	p := render.Pod(a)
	hash := p.Annotations[render.AnnotationDesktopHash]
	a.Spec.Desktop.Image, a.Spec.Epoch = "browser:2", 3
	p = Pods.aligned(p, render.Pod(a))
	if p.Spec.Containers[0].Image != "browser:1" || p.Annotations[render.AnnotationDesktopHash] != hash {
		t.Errorf("image %s, hash %s", p.Spec.Containers[0].Image, p.Annotations[render.AnnotationDesktopHash])
	}
	if p.Annotations[api.AnnotationEpoch] != "3" {
		t.Errorf("epoch %s", p.Annotations[api.AnnotationEpoch])
	}
}
