package render

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// servicePort is the port of every desktop's Service.
const servicePort = 80

// Application protocols of a Service's port, as Kubernetes defines them. Several Gateways
// require them for websockets; Ingress controllers use annotations.
const (
	protocolWS  = "kubernetes.io/ws"
	protocolWSS = "kubernetes.io/wss"
)

// Service returns the desktop's Service.
func Service(a *api.SessionAssignment) *corev1.Service {
	svc := &corev1.Service{ObjectMeta: ownedMeta(a)}
	protocol := protocolWS
	if usesTLS(a) {
		protocol = protocolWSS
		// Traefik reads it here and nowhere else.
		svc.Annotations["traefik.ingress.kubernetes.io/service.serversscheme"] = "https"
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

func usesTLS(a *api.SessionAssignment) bool {
	return a.Spec.Desktop.Protocol == api.ProtocolHTTPS
}
