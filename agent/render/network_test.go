package render

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// reaches reports whether a policy allows a desktop to reach an address, on a port
// that is not DNS.
func reaches(t *testing.T, p *networkingv1.NetworkPolicy, address string) bool {
	t.Helper()
	to := netip.MustParseAddr(address)
	in := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(to) }
	for _, rule := range p.Spec.Egress {
		if len(rule.Ports) > 0 {
			continue
		}
		for _, peer := range rule.To {
			if in(peer.IPBlock.CIDR) && !slices.ContainsFunc(peer.IPBlock.Except, in) {
				return true
			}
		}
	}
	return false
}

func TestADesktopReachesTheInternetAndNothingElse(t *testing.T) {
	policy := NetworkPolicy(assignment(), Network{})
	for _, address := range []string{"1.1.1.1", "8.8.8.8", "93.184.215.14", "11.0.0.1", "172.32.0.1", "223.255.255.254", "2606:4700::1111", "2a00:1450:4001::1", "2400::1"} {
		if !reaches(t, policy, address) {
			t.Errorf("%s is out in the world, and can't be reached", address)
		}
	}
	for address, whose := range map[string]string{
		"10.96.0.1": "a cluster's Service", "172.20.0.10": "a cluster's DNS", "192.168.1.1": "a router", "100.100.100.200": "a cloud's metadata",
		"169.254.169.254": "a cloud's metadata", "169.254.20.10": "a node's DNS", "127.0.0.1": "loopback", "0.0.0.0": "this host",
		"224.0.0.251": "multicast", "255.255.255.255": "broadcast", "192.0.0.192": "a cloud's metadata",
		"::": "this host", "::1": "loopback", "::a9fe:a9fe": "metadata in IPv6", "64:ff9b::a9fe:a9fe": "metadata through NAT64",
		"64:ff9b:1::a00:1": "a private address through NAT64", "2002:a9fe:a9fe::1": "metadata through 6to4", "fd00:ec2::254": "a cloud's metadata",
		"fe80::1": "link-local", "fec0::1": "site-local", "ff02::1": "multicast", "2001:0:1::1": "Teredo",
	} {
		if reaches(t, policy, address) {
			t.Errorf("%s, %s, can be reached", address, whose)
		}
	}
}

// The API server's requirements, and that each CIDR is canonical.
func TestExceptionsAreWellFormed(t *testing.T) {
	for world, exceptions := range map[string][]string{"0.0.0.0/0": nonPublic4, "::/0": nonPublic6} {
		for _, e := range exceptions {
			prefix := netip.MustParsePrefix(e)
			if prefix.Masked() != prefix || prefix.String() != e || prefix.Bits() == 0 || prefix.Addr().Is4In6() ||
				prefix.Addr().BitLen() != netip.MustParsePrefix(world).Addr().BitLen() {
				t.Errorf("%s within %s", e, world)
			}
		}
	}
}

func TestATemplateOpensWhatItNames(t *testing.T) {
	a := assignment(func(a *api.SessionAssignment) {
		a.Spec.Desktop.NetworkPolicy.EgressCIDRs = []string{"10.20.0.0/16", "fd12::/64"}
	})
	policy := NetworkPolicy(a, Network{})
	for address, want := range map[string]bool{"10.20.3.4": true, "fd12::1": true, "10.21.0.1": false, "fd13::1": false, "1.1.1.1": true} {
		if reaches(t, policy, address) != want {
			t.Errorf("%s can be reached: %t, want %t", address, !want, want)
		}
	}
	policy.Spec.Egress[1].To[0].IPBlock.Except[0] = "changed"
	if NetworkPolicy(a, Network{}).Spec.Egress[1].To[0].IPBlock.Except[0] == "changed" {
		t.Error("two policies share a list")
	}
}

func TestDesktopsWithTheSameRulesShareAPolicy(t *testing.T) {
	base := NetworkPolicy(assignment(), Network{})
	if other := NetworkPolicy(assignment(func(a *api.SessionAssignment) { a.Name, a.Spec.Epoch = "other", 7 }), Network{}); !equality.Semantic.DeepEqual(base, other) {
		t.Errorf("another session has another policy:\n%+v\n%+v", base, other)
	}
	for what, policy := range map[string]*networkingv1.NetworkPolicy{
		"port":       NetworkPolicy(assignment(func(a *api.SessionAssignment) { a.Spec.Desktop.Port++ }), Network{}),
		"CIDRs":      NetworkPolicy(assignment(func(a *api.SessionAssignment) { a.Spec.Desktop.NetworkPolicy.EgressCIDRs = []string{"10.20.0.0/16"} }), Network{}),
		"gateways":   NetworkPolicy(assignment(), Network{GatewayNamespaces: metav1.LabelSelector{MatchLabels: map[string]string{"role": "edge"}}}),
		"lease port": NetworkPolicy(assignment(func(a *api.SessionAssignment) { a.Spec.FailoverMode = api.FailoverFence }), Network{AgentNamespace: "vdi-system", LeasePort: 9443}),
	} {
		if policy.Name == base.Name {
			t.Errorf("another %s has the same policy", what)
		}
		pod := Pod(assignment())
		Isolate(pod, policy)
		selects := func(p *networkingv1.NetworkPolicy) bool {
			return labels.SelectorFromSet(p.Spec.PodSelector.MatchLabels).Matches(labels.Set(pod.Labels))
		}
		if !selects(policy) || selects(base) {
			t.Errorf("a Pod with another %s is selected by its policy: %t, by the first: %t", what, selects(policy), selects(base))
		}
	}
}

func TestADesktopIsReachedFromTheGatewayAlone(t *testing.T) {
	gateways := map[string]string{api.LabelGateway: "true"}
	agent := map[string]string{corev1.LabelMetadataName: "vdi-system"}
	chosen := map[string]string{"role": "edge"}
	probed := func(a *api.SessionAssignment) { a.Spec.Desktop.Activity.Path = "/activity" }
	silent := func(*api.SessionAssignment) {}
	cases := map[string]struct {
		a    func(*api.SessionAssignment)
		n    Network
		want []map[string]string
	}{
		"by default":         {silent, Network{}, []map[string]string{gateways}},
		"chosen":             {silent, Network{GatewayNamespaces: metav1.LabelSelector{MatchLabels: chosen}}, []map[string]string{chosen}},
		"the agent need not": {silent, Network{AgentNamespace: "vdi-system"}, []map[string]string{gateways}},
		"the agent probes":   {probed, Network{AgentNamespace: "vdi-system"}, []map[string]string{gateways, agent}},
		"there is no agent":  {probed, Network{}, []map[string]string{gateways}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ingress := NetworkPolicy(assignment(c.a), c.n).Spec.Ingress
			if len(ingress) != 1 || len(ingress[0].From) != len(c.want) || len(ingress[0].Ports) != 1 || ingress[0].Ports[0].Port.IntVal != 6080 {
				t.Fatalf("rules: %+v", ingress)
			}
			for i, peer := range ingress[0].From {
				if peer.PodSelector != nil || peer.IPBlock != nil || !maps.Equal(peer.NamespaceSelector.MatchLabels, c.want[i]) {
					t.Errorf("from %+v, want %v", peer, c.want[i])
				}
			}
		})
	}
}

// A controller gets its own annotations or none.
func TestAControllerGetsNoneOfAnothersAnnotations(t *testing.T) {
	prefixes := map[string]string{
		"k8s.io/ingress-nginx": "nginx.ingress.kubernetes.io/", "nginx.org/ingress-controller": "nginx.org/",
		"traefik.io/ingress-controller": "traefik.ingress.kubernetes.io/", "haproxy.org/ingress-controller": "haproxy.org/",
		"haproxy-ingress.github.io/controller": "haproxy-ingress.github.io/", "ingress.k8s.aws/alb": "alb.ingress.kubernetes.io/",
	}
	plain := Ingress(assignment(gpu), Network{}).Annotations
	if len(profiles) != len(prefixes) {
		t.Errorf("%d profiles, %d in the test", len(profiles), len(prefixes))
	}
	for controller := range profiles {
		for key := range Ingress(assignment(gpu), Network{Controller: controller}).Annotations {
			if _, always := plain[key]; !always && !strings.HasPrefix(key, prefixes[controller]) {
				t.Errorf("%s gets %s", controller, key)
			}
		}
	}
	for _, unknown := range []string{"", "example.com/controller", "k8s.io/ingress-nginx-custom", "haproxy.org/ingress"} {
		if got := Ingress(assignment(gpu), Network{Controller: unknown}).Annotations; !maps.Equal(got, plain) {
			t.Errorf("controller %q gets %v", unknown, got)
		}
	}
}

func TestAProfileIsNotChangedByItsUse(t *testing.T) {
	n := Network{Controller: "nginx.org/ingress-controller"}
	before := Ingress(assignment(), n)
	Ingress(assignment(gpu), n).Annotations["nginx.org/proxy-read-timeout"] = "changed"
	if !equality.Semantic.DeepEqual(before, Ingress(assignment(), n)) {
		t.Error("one Ingress changed the next")
	}
}

func TestARouteNeedsAGateway(t *testing.T) {
	if HTTPRoute(assignment(), Network{}) != nil {
		t.Error("there is a route to no Gateway")
	}
	parent := HTTPRoute(assignment(), Network{Gateway: &GatewayRef{Namespace: "g", Name: "public"}}).Spec.ParentRefs[0]
	if parent.SectionName != nil || string(*parent.Namespace) != "g" {
		t.Errorf("of a Gateway without a section: %+v", parent)
	}
}

// Behind a door a desktop has no way of its own, and is reached from the door's namespace alone.
func TestADesktopBehindADoor(t *testing.T) {
	n := Network{Door: true, AgentNamespace: "vdi-system"}
	a := assignment()
	if Ingress(a, n) != nil {
		t.Error("it has an Ingress")
	}
	n.Gateway = &GatewayRef{Namespace: "gateways", Name: "public"}
	if HTTPRoute(a, n) != nil {
		t.Error("it has an HTTPRoute")
	}
	a.Spec.Desktop.Activity.Path = "/activity"
	from := NetworkPolicy(a, n).Spec.Ingress[0].From
	if len(from) != 1 || from[0].NamespaceSelector.MatchLabels[corev1.LabelMetadataName] != "vdi-system" {
		t.Errorf("it is reached from %v", from)
	}
	if NetworkPolicy(a, n).Name == NetworkPolicy(a, Network{AgentNamespace: "vdi-system"}).Name {
		t.Error("with and without a door desktops share a policy")
	}
}
