package render

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// nonPublic4 has the IPv4 addresses that are not public: those of clusters, nodes, their
// metadata and networks, and reserved ones.
var nonPublic4 = []string{
	"0.0.0.0/8",       // RFC 791: this network
	"10.0.0.0/8",      // RFC 1918: private
	"100.64.0.0/10",   // RFC 6598: carrier-grade NAT, and the Pods of some clusters
	"127.0.0.0/8",     // RFC 1122: loopback
	"169.254.0.0/16",  // RFC 3927: link-local; 169.254.169.254 is a cloud's metadata
	"172.16.0.0/12",   // RFC 1918: private
	"192.0.0.0/24",    // RFC 6890: protocol assignments; 192.0.0.192 is metadata, too
	"192.0.2.0/24",    // RFC 5737: documentation
	"192.88.99.0/24",  // RFC 7526: relays to IPv6, no longer in use
	"192.168.0.0/16",  // RFC 1918: private
	"198.18.0.0/15",   // RFC 2544: benchmarks
	"198.51.100.0/24", // RFC 5737: documentation
	"203.0.113.0/24",  // RFC 5737: documentation
	"224.0.0.0/4",     // RFC 1112: multicast
	"240.0.0.0/4",     // RFC 1112: reserved, with the broadcast of RFC 919
}

// nonPublic6 has the IPv6 addresses that are not public. The first includes the unspecified
// address, loopback, and those that contain an IPv4 address, which would evade the list
// above. It is not split, since some plugins read the IPv4-mapped range, ::ffff:0:0/96, as
// 0.0.0.0/0 and others refuse it.
var nonPublic6 = []string{
	"::/8",          // RFC 4291: see above; RFC 6052, RFC 8215: NAT64
	"100::/64",      // RFC 6666: discarded
	"2001::/23",     // RFC 2928: protocol assignments; RFC 4380: Teredo
	"2001:db8::/32", // RFC 3849: documentation
	"2002::/16",     // RFC 3056: 6to4, holds an IPv4 address
	"3fff::/20",     // RFC 9637: documentation
	"5f00::/16",     // RFC 9602: segment routing
	"fc00::/7",      // RFC 4193: unique local; fd00:ec2::254 is a cloud's metadata
	"fe80::/10",     // RFC 4291: link-local
	"fec0::/10",     // RFC 3879: site-local, no longer in use
	"ff00::/8",      // RFC 4291: multicast
}

// dnsNamespace is the namespace of a cluster's DNS servers, and dnsPort their port.
const (
	dnsNamespace = "kube-system"
	dnsPort      = 53
)

// NetworkPolicy allows the gateways, or the door, to reach the desktop, and the desktop to reach DNS, public
// addresses, and its template's egressCIDRs. It returns nil if the template requires none.
// All desktops of a namespace that require the same rules use the same policy, which selects
// Pods by LabelNetworkPolicy.
//
// Probes need no rule, since a kubelet always reaches the Pods of its node. Limitations: a
// gateway on the host network has no namespace, and many network plugins allow every node's
// address. Public addresses of a cluster's Pods or Services are allowed. A DNS server with a
// link-local address on each node, and NAT64, require egressCIDRs.
func NetworkPolicy(a *api.SessionAssignment, n Network) *networkingv1.NetworkPolicy {
	if a.Spec.Desktop.NetworkPolicy.Mode == api.NetworkOpen {
		return nil
	}
	rules := networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From:  ingressPeers(a, n),
			Ports: []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolTCP, a.Spec.Desktop.Port)},
		}},
		Egress: []networkingv1.NetworkPolicyEgressRule{
			egressTo(dnsNamespace, policyPort(corev1.ProtocolUDP, dnsPort), policyPort(corev1.ProtocolTCP, dnsPort)),
			publicEgress(a),
		},
	}
	if mayHaveGuard(a) && n.AgentNamespace != "" && n.LeasePort != 0 {
		rules.Egress = append(rules.Egress, egressTo(n.AgentNamespace, policyPort(corev1.ProtocolTCP, n.LeasePort)))
	}
	hash := shortHash(rules)
	policy := &networkingv1.NetworkPolicy{ObjectMeta: sharedMeta(a.Namespace, "desktops-"+hash), Spec: rules}
	policy.Spec.PodSelector.MatchLabels = map[string]string{api.LabelManagedBy: api.ManagedBy, LabelNetworkPolicy: hash}
	return policy
}

// Isolate has a Pod selected by a policy, and by none if that is nil.
func Isolate(pod *corev1.Pod, policy *networkingv1.NetworkPolicy) {
	if policy != nil {
		pod.Labels[LabelNetworkPolicy] = policy.Spec.PodSelector.MatchLabels[LabelNetworkPolicy]
	}
}

// ingressPeers returns the peers that may reach the desktop.
func ingressPeers(a *api.SessionAssignment, n Network) []networkingv1.NetworkPolicyPeer {
	if n.Door {
		return []networkingv1.NetworkPolicyPeer{{NamespaceSelector: namespaceNamed(n.AgentNamespace)}}
	}
	peers := []networkingv1.NetworkPolicyPeer{{NamespaceSelector: n.gateways()}}
	if n.AgentNamespace != "" && a.Spec.Desktop.Activity.Path != "" {
		peers = append(peers, networkingv1.NetworkPolicyPeer{NamespaceSelector: namespaceNamed(n.AgentNamespace)})
	}
	return peers
}

// egressTo allows the desktop to reach ports of a namespace.
func egressTo(namespace string, ports ...networkingv1.NetworkPolicyPort) networkingv1.NetworkPolicyEgressRule {
	return networkingv1.NetworkPolicyEgressRule{
		To: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: namespaceNamed(namespace)}}, Ports: ports,
	}
}

func publicEgress(a *api.SessionAssignment) networkingv1.NetworkPolicyEgressRule {
	to := []networkingv1.NetworkPolicyPeer{
		{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: slices.Clone(nonPublic4)}},
		{IPBlock: &networkingv1.IPBlock{CIDR: "::/0", Except: slices.Clone(nonPublic6)}},
	}
	for _, cidr := range a.Spec.Desktop.NetworkPolicy.EgressCIDRs {
		to = append(to, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
	}
	return networkingv1.NetworkPolicyEgressRule{To: to}
}

func namespaceNamed(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: name}}
}

func policyPort(protocol corev1.Protocol, port int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: ptr.To(protocol), Port: ptr.To(intstr.FromInt32(port))}
}

// NotPublic returns the non-public addresses, which desktops of mode Isolated don't reach
// unless their template names them.
func NotPublic() []string { return slices.Concat(nonPublic4, nonPublic6) }
