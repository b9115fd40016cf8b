package render

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// servicePort is the port of every desktop's Service, whatever the desktop's.
const servicePort = 80

// socketSeconds is how long a desktop's websocket may be silent. A day: the
// session's own limits end it, not the proxy's.
const socketSeconds = "86400"

// Service is the stable address of the desktop within the member.
func Service(a *api.SessionAssignment) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: ownedMeta(a)}
	protocol := "http"
	if a.Spec.Desktop.Protocol == api.ProtocolHTTPS {
		protocol = "https"
		svc.Annotations["traefik.ingress.kubernetes.io/service.serversscheme"] = protocol
	}
	svc.Spec = corev1.ServiceSpec{
		Type:     corev1.ServiceTypeClusterIP,
		Selector: Selector(a),
		Ports: []corev1.ServicePort{{
			Name:        PortName,
			Protocol:    corev1.ProtocolTCP,
			AppProtocol: ptr.To(protocol),
			Port:        servicePort,
			TargetPort:  intstr.FromString(PortName),
		}},
	}
	return svc
}

// Ingress leads the session's host to its Service.
func Ingress(a *api.SessionAssignment) *networkingv1.Ingress {
	ing := &networkingv1.Ingress{ObjectMeta: ownedMeta(a)}
	ing.Annotations["nginx.ingress.kubernetes.io/proxy-read-timeout"] = socketSeconds
	ing.Annotations["nginx.ingress.kubernetes.io/proxy-send-timeout"] = socketSeconds
	if a.Spec.Desktop.Protocol == api.ProtocolHTTPS {
		ing.Annotations["nginx.ingress.kubernetes.io/backend-protocol"] = "HTTPS"
	}
	backend := networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: a.Name,
		Port: networkingv1.ServiceBackendPort{Name: PortName},
	}}
	ing.Spec = networkingv1.IngressSpec{
		IngressClassName: optional(a.Spec.Desktop.IngressClassName),
		Rules: []networkingv1.IngressRule{{
			Host: a.Spec.Host,
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{
					Path:     "/",
					PathType: ptr.To(networkingv1.PathTypePrefix),
					Backend:  backend,
				}},
			}},
		}},
	}
	return ing
}
