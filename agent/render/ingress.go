package render

// socketSeconds is how long a desktop's websocket may be silent. A day: the
// session's own limits end it, not the proxy's.
const socketSeconds = "86400"

// The Ingress controllers whose annotations are known, by the spec.controller
// of their IngressClass.
const (
	controllerNginx     = "k8s.io/ingress-nginx"
	controllerNginxInc  = "nginx.org/ingress-controller"
	controllerTraefik   = "traefik.io/ingress-controller"
	controllerHAProxy   = "haproxy.org/ingress-controller"
	controllerHAIngress = "haproxy-ingress.github.io/controller"
	controllerALB       = "ingress.k8s.aws/alb"
)

// profile is what makes one controller keep websockets open for hours, and what
// makes it speak HTTPS to a desktop.
type profile struct{ always, https map[string]string }

// profiles by controller. One that is not here gets no annotations: those of
// another controller would do nothing, and say that they do.
//
//   - ingress-nginx and NGINX's own: the proxy's read and send timeouts, of 60 s
//     by default, count between two frames.
//   - Traefik upgrades connections by itself and has no such timeout for them;
//     HTTPS is the Service's annotation.
//   - HAProxy's own keeps an upgraded connection for an hour of silence; its
//     administrator may change that for all, nobody for one Ingress.
//   - HAProxy Ingress: "tunnel" is the timeout after the upgrade.
//   - AWS: the load balancer's idle timeout, of which 4,000 s is the most.
var profiles = map[string]profile{
	controllerNginx: {
		always: map[string]string{
			"nginx.ingress.kubernetes.io/proxy-read-timeout": socketSeconds,
			"nginx.ingress.kubernetes.io/proxy-send-timeout": socketSeconds,
		},
		https: map[string]string{"nginx.ingress.kubernetes.io/backend-protocol": "HTTPS"},
	},
	controllerTraefik: {},
	controllerHAProxy: {
		https: map[string]string{"haproxy.org/server-ssl": "true"},
	},
	controllerHAIngress: {
		always: map[string]string{"haproxy-ingress.github.io/timeout-tunnel": socketSeconds + "s"},
		https:  map[string]string{"haproxy-ingress.github.io/backend-protocol": "h1-ssl"},
	},
	controllerALB: {
		always: map[string]string{
			"alb.ingress.kubernetes.io/load-balancer-attributes": "idle_timeout.timeout_seconds=4000",
			"alb.ingress.kubernetes.io/target-type":              "ip",
		},
		https: map[string]string{"alb.ingress.kubernetes.io/backend-protocol": "HTTPS"},
	},
}

// ingressAnnotations of a controller for a Service.
func ingressAnnotations(controller string, https bool, service string) map[string]string {
	out := map[string]string{}
	known := profiles[controller]
	for key, value := range known.always {
		out[key] = value
	}
	if https {
		for key, value := range known.https {
			out[key] = value
		}
	}
	if controller == controllerNginxInc {
		// These name the Services that they are for.
		out["nginx.org/proxy-read-timeout"] = socketSeconds + "s"
		out["nginx.org/proxy-send-timeout"] = socketSeconds + "s"
		out["nginx.org/websocket-services"] = service
		if https {
			out["nginx.org/ssl-services"] = service
		}
	}
	return out
}
