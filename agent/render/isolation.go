package render

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// notTheWorld are the addresses that a desktop has no business with: those of
// clusters and companies, of the node itself, and of the cloud's metadata
// service, which gives away the node's credentials.
var notTheWorld = map[string][]string{
	"0.0.0.0/0": {
		"0.0.0.0/8",      // this host (RFC 1122)
		"10.0.0.0/8",     // private (RFC 1918)
		"100.64.0.0/10",  // carriers' and some clusters' (RFC 6598)
		"127.0.0.0/8",    // loopback (RFC 1122)
		"169.254.0.0/16", // link-local: metadata and node-local services (RFC 3927)
		"172.16.0.0/12",  // private (RFC 1918)
		"192.0.0.0/24",   // protocol assignments (RFC 6890)
		"192.168.0.0/16", // private (RFC 1918)
		"198.18.0.0/15",  // benchmarks (RFC 2544)
		"224.0.0.0/4",    // multicast (RFC 5771)
		"240.0.0.0/4",    // reserved and broadcast (RFC 1112)
	},
	"::/0": {
		"::/127",       // unspecified and loopback (RFC 4291)
		"64:ff9b::/96", // IPv4 behind a translator (RFC 6052)
		"fc00::/7",     // private (RFC 4193)
		"fe80::/10",    // link-local (RFC 4291)
		"ff00::/8",     // multicast (RFC 4291)
	},
}

// dnsPort of the cluster's DNS, in its system namespace.
const dnsPort = 53

// NetworkPolicy says whom the desktop may talk to; nil: anybody.
func NetworkPolicy(a *api.SessionAssignment, n Network) *networkingv1.NetworkPolicy {
	if a.Spec.Desktop.NetworkPolicy.Mode == api.NetworkOpen {
		return nil
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: ownedMeta(a),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: Selector(a)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: visitors(a, n), Ports: port(corev1.ProtocolTCP, a.Spec.Desktop.Port)}},
			Egress:      egress(a),
		},
	}
}

// visitors may reach the desktop's port: the gateway, and the agent where it
// has something to ask.
func visitors(a *api.SessionAssignment, n Network) []networkingv1.NetworkPolicyPeer {
	gateway := n.GatewayNamespaces.DeepCopy()
	if len(gateway.MatchLabels) == 0 && len(gateway.MatchExpressions) == 0 {
		gateway.MatchLabels = map[string]string{api.LabelGateway: "true"}
	}
	out := []networkingv1.NetworkPolicyPeer{{NamespaceSelector: gateway}}
	if a.Spec.Desktop.Activity.Path != "" && n.AgentNamespace != "" {
		out = append(out, networkingv1.NetworkPolicyPeer{NamespaceSelector: named(n.AgentNamespace)})
	}
	return out
}

func egress(a *api.SessionAssignment) []networkingv1.NetworkPolicyEgressRule {
	dns := append(port(corev1.ProtocolUDP, dnsPort), port(corev1.ProtocolTCP, dnsPort)...)
	out := []networkingv1.NetworkPolicyEgressRule{
		{To: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: named(metav1.NamespaceSystem)}}, Ports: dns},
		{To: []networkingv1.NetworkPolicyPeer{world("0.0.0.0/0"), world("::/0")}},
	}
	var besides []networkingv1.NetworkPolicyPeer
	for _, cidr := range a.Spec.Desktop.NetworkPolicy.EgressCIDRs {
		besides = append(besides, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
	}
	if len(besides) > 0 {
		out = append(out, networkingv1.NetworkPolicyEgressRule{To: besides})
	}
	return out
}

func world(cidr string) networkingv1.NetworkPolicyPeer {
	except := append([]string(nil), notTheWorld[cidr]...)
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
}

func named(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
}

func port(protocol corev1.Protocol, number int32) []networkingv1.NetworkPolicyPort {
	return []networkingv1.NetworkPolicyPort{{Protocol: ptr.To(protocol), Port: ptr.To(intstr.FromInt32(number))}}
}

// DisruptionBudget keeps whoever drains a node from evicting the desktop. It
// asks for one available Pod, not for none unavailable: the latter is reckoned
// from the scale of a Pod's owner, and an assignment has none.
func DisruptionBudget(a *api.SessionAssignment) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: ownedMeta(a),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)),
			Selector:     &metav1.LabelSelector{MatchLabels: Selector(a)},
		},
	}
}
