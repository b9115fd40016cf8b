package render

import (
	"cmp"
	"maps"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// How long a desktop's websocket may be idle: a day. The session's limits end it, not the
// proxy.
const (
	socketSeconds = "86400"
	socketTime    = socketSeconds + "s"
	// albSocketSeconds is the maximum of an AWS load balancer.
	albSocketSeconds = "4000"
)

// profile has the annotations for one Ingress controller.
type profile struct {
	// always keeps websockets open.
	always map[string]string
	// tls is for desktops that serve HTTPS. None requires to verify the certificate, which
	// is self-signed.
	tls map[string]string
	// services, and for HTTPS tlsServices, are annotations whose value is the name of the
	// Service.
	services, tlsServices []string
}

// profiles by IngressClass.spec.controller. Other controllers get no annotations.
//
//   - HAProxy Technologies' reads the timeout of websockets only from its ConfigMap
//     (timeout-tunnel, by default an hour).
//   - Traefik has no timeout for idle websockets, and reads the protocol from the Service. It
//     verifies the desktop's certificate unless configured otherwise.
//   - AWS' reaches Pods rather than nodes, since the Service has no node ports, and counts a
//     page that requires a login as healthy. Its administrator groups the Ingresses by
//     IngressClassParams, or each gets a load balancer.
var profiles = map[string]profile{
	"k8s.io/ingress-nginx": {
		always: map[string]string{
			"nginx.ingress.kubernetes.io/proxy-read-timeout": socketSeconds,
			"nginx.ingress.kubernetes.io/proxy-send-timeout": socketSeconds,
		},
		tls: map[string]string{"nginx.ingress.kubernetes.io/backend-protocol": "HTTPS"},
	},
	"nginx.org/ingress-controller": {
		always: map[string]string{
			"nginx.org/proxy-read-timeout": socketTime,
			"nginx.org/proxy-send-timeout": socketTime,
		},
		services:    []string{"nginx.org/websocket-services"},
		tlsServices: []string{"nginx.org/ssl-services"},
	},
	"traefik.io/ingress-controller": {},
	"haproxy.org/ingress-controller": {
		tls: map[string]string{"haproxy.org/server-ssl": "true"},
	},
	"haproxy-ingress.github.io/controller": {
		always: map[string]string{"haproxy-ingress.github.io/timeout-tunnel": socketTime},
		tls:    map[string]string{"haproxy-ingress.github.io/secure-backends": "true"},
	},
	"ingress.k8s.aws/alb": {
		always: map[string]string{
			"alb.ingress.kubernetes.io/load-balancer-attributes": "idle_timeout.timeout_seconds=" + albSocketSeconds,
			"alb.ingress.kubernetes.io/success-codes":            "200-499",
			"alb.ingress.kubernetes.io/target-type":              "ip",
		},
		tls: map[string]string{"alb.ingress.kubernetes.io/backend-protocol": "HTTPS"},
	},
}

// profileOf returns a controller's profile. HAProxy's controllers append the name of a class
// if a cluster has several of them.
func profileOf(controller string) profile {
	for name, p := range profiles {
		if controller == name || strings.HasPrefix(controller, name+"/") {
			return p
		}
	}
	return profile{}
}

// ControllerOf returns the controller of a class, by default that of the default class, and "" if it is not known.
func ControllerOf(classes []networkingv1.IngressClass, name string) string {
	for i := range classes {
		class := &classes[i]
		if class.Name == name || name == "" && class.Annotations[networkingv1.AnnotationIsDefaultIngressClass] == "true" {
			return class.Spec.Controller
		}
	}
	return ""
}

// annotate adds the annotations for a Service, which serves HTTPS if tls is set.
func (p profile) annotate(annotations map[string]string, service string, tls bool) {
	maps.Copy(annotations, p.always)
	services := p.services
	if tls {
		maps.Copy(annotations, p.tls)
		services = append(services[:len(services):len(services)], p.tlsServices...)
	}
	for _, name := range services {
		annotations[name] = service
	}
}

// Ingress routes the session's host to its Service. It returns nil if the member has a
// Gateway or a door.
func Ingress(a *api.SessionAssignment, n Network) *networkingv1.Ingress {
	if n.Gateway != nil || n.Door {
		return nil
	}
	ing := &networkingv1.Ingress{ObjectMeta: ownedMeta(a)}
	profileOf(n.Controller).annotate(ing.Annotations, a.Name, usesTLS(a))
	ing.Spec = ingressTo(a.Spec.Host, a.Name)
	ing.Spec.IngressClassName = optional(a.Spec.Desktop.IngressClassName)
	ing.Spec.TLS = ingressTLS(a.Spec.Host, cmp.Or(a.Spec.Desktop.TLSSecretName, n.TLSSecretName))
	return ing
}

// ingressTo routes a host to the port PortName of a Service.
func ingressTo(host, service string) networkingv1.IngressSpec {
	return networkingv1.IngressSpec{
		Rules: []networkingv1.IngressRule{{
			Host: host,
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{
					Path:     "/",
					PathType: ptr.To(networkingv1.PathTypePrefix),
					Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
						Name: service,
						Port: networkingv1.ServiceBackendPort{Name: PortName},
					}},
				}},
			}},
		}},
	}
}

// ingressTLS returns nil if no certificate is named: the controller uses its default.
func ingressTLS(host, secret string) []networkingv1.IngressTLS {
	if secret == "" {
		return nil
	}
	return []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: secret}}
}
