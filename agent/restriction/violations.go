package restriction

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Desktop is the part of a template or an assignment that is restricted.
type Desktop struct {
	Image, RuntimeClass, PriorityClass string
	Tolerations                        []corev1.Toleration
	NetworkMode                        v1alpha1.NetworkPolicyMode
	EgressCIDRs                        []string
}

// Template returns why a desktop is not permitted in the member, and nothing if it is.
func (s *Settings) Template(d Desktop) []string {
	var out []string
	add := func(violation string) {
		if violation != "" {
			out = append(out, violation)
		}
	}
	add(s.image(d.Image))
	add(class(s.RuntimeClasses, d.RuntimeClass, "runtime"))
	add(class(s.PriorityClasses, d.PriorityClass, "priority"))
	add(s.tolerations(d.Tolerations))
	if d.NetworkMode == v1alpha1.NetworkOpen && !s.OpenNetwork {
		add("network mode Open is not allowed in this member: use Isolated, " + orAsk("--allow-open-network"))
	}
	for _, cidr := range d.EgressCIDRs {
		add(s.egress(cidr))
	}
	return out
}

// Assignment returns why an assignment is not permitted in the member, and nothing if it
// is.
func (s *Settings) Assignment(spec *v1alpha1.SessionAssignmentSpec) []string {
	d := &spec.Desktop
	out := s.Template(Desktop{
		Image: d.Image, RuntimeClass: d.RuntimeClassName, PriorityClass: d.PriorityClassName, Tolerations: d.Tolerations,
		NetworkMode: d.NetworkPolicy.Mode, EgressCIDRs: d.NetworkPolicy.EgressCIDRs,
	})
	if violation := s.host(spec.Host); violation != "" {
		out = append(out, violation)
	}
	return out
}

// Message joins several violations to one sentence.
func Message(violations []string) string { return strings.Join(violations, "; ") }

func orAsk(flag string) string {
	return fmt.Sprintf("or have the member's administrator allow it (%s)", flag)
}

func (s *Settings) host(host string) string {
	if len(s.HostSuffixes) == 0 || slices.ContainsFunc(s.HostSuffixes, func(suffix string) bool {
		return strings.HasSuffix(host, "."+strings.TrimPrefix(suffix, "."))
	}) {
		return ""
	}
	return fmt.Sprintf("host %q is not allowed in this member, which takes those under %s: set spec.ingressDomain of the MemberCluster to one of these, %s",
		host, some(s.HostSuffixes), orAsk("--allowed-host-suffixes"))
}

func class(allowed []string, name, kind string) string {
	if len(allowed) == 0 || slices.Contains(allowed, cmp.Or(name, Unnamed)) {
		return ""
	}
	what := fmt.Sprintf("%s class %q is", kind, name)
	if name == "" {
		what = fmt.Sprintf("no %s class is named, which is", kind)
	}
	return fmt.Sprintf("%s not allowed in this member, which takes %s: name one of these in the template, %s",
		what, some(allowed), orAsk("--allowed-"+kind+"-classes"))
}

// some of a list, for a message.
func some(list []string) string {
	const most = 5
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}

func (s *Settings) image(image string) string {
	if len(s.ImagePrefixes) == 0 || slices.ContainsFunc(s.ImagePrefixes, func(prefix string) bool { return begins(image, prefix) }) {
		return ""
	}
	return fmt.Sprintf("image %q is not allowed in this member, which takes those of %s: use one of these, %s",
		image, some(s.ImagePrefixes), orAsk("--allowed-image-prefixes"))
}

// begins reports whether an image is of a registry or repository. A prefix ends where
// a part of the name does: registry.example is no beginning of registry.example.org.
func begins(image, prefix string) bool {
	rest, found := strings.CutPrefix(qualified(image), qualifiedPrefix(prefix))
	return found && (strings.HasSuffix(prefix, "/") || rest == "" || strings.HasPrefix(rest, "/") ||
		!hostOnly(prefix) && strings.ContainsAny(rest[:1], ":@"))
}

// qualified returns the name of an image with its registry, as container runtimes read it.
func qualified(image string) string {
	first, _, path := strings.Cut(image, "/")
	switch {
	case path && isHost(first):
		return image
	case path:
		return "docker.io/" + image
	}
	return "docker.io/library/" + image
}

func qualifiedPrefix(prefix string) string {
	if hostOnly(prefix) {
		return prefix
	}
	return qualified(prefix)
}

// hostOnly reports whether a prefix names a registry alone.
func hostOnly(prefix string) bool { return !strings.Contains(prefix, "/") && isHost(prefix) }

func isHost(first string) bool { return first == "localhost" || strings.ContainsAny(first, ".:") }

// controlPlane are the keys of the taints that keep Pods off the nodes of a control
// plane.
var controlPlane = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/etcd"}

func (s *Settings) tolerations(all []corev1.Toleration) string {
	if s.ControlPlane {
		return ""
	}
	for _, t := range all {
		switch {
		case t.Key == "":
			return "a toleration of every taint is not allowed in this member, for it is one of the control plane's: name the key of the taint that is meant, " + orAsk("--allow-control-plane")
		case slices.Contains(controlPlane, t.Key):
			return fmt.Sprintf("a toleration of the control plane's taint %s is not allowed in this member: remove it from the template, %s", t.Key, orAsk("--allow-control-plane"))
		}
	}
	return ""
}

func (s *Settings) egress(cidr string) string {
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		return fmt.Sprintf("egress CIDR %q can't be read, and so is not allowed: correct the template's networkPolicy.egressCIDRs", cidr)
	}
	prefix = unmapped(prefix).Masked()
	switch {
	case prefix == nodeDNS:
		return ""
	case !s.LinkLocalEgress && overlaps(prefix, linkLocal):
		return fmt.Sprintf("egress CIDR %s has link-local addresses, where clouds serve the credentials of nodes, which is not allowed in this member: name narrower ranges without them, %s",
			cidr, orAsk("--allow-link-local-egress"))
	case !s.PrivateEgress && overlaps(prefix, notPublic):
		return fmt.Sprintf("egress CIDR %s has addresses that are not public, which is not allowed in this member: take it from the template, %s",
			cidr, orAsk("--allow-private-egress"))
	}
	return ""
}
