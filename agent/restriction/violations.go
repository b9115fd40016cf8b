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

// Template returns the violations of a template, by its desktop.
func (s *Settings) Template(d *v1alpha1.Desktop) []string {
	var out []string
	add := func(violation string) {
		if violation != "" {
			out = append(out, violation)
		}
	}
	add(s.image(d.Image))
	add(class(s.RuntimeClasses, d.RuntimeClassName, "runtime"))
	add(class(s.PriorityClasses, d.PriorityClassName, "priority"))
	add(s.tolerations(d.Tolerations))
	if d.NetworkPolicy.Mode == v1alpha1.NetworkOpen && !s.OpenNetwork {
		add("network mode Open is not allowed in this member: use Isolated, " + administratorRemedy("--allow-open-network"))
	}
	for _, cidr := range d.NetworkPolicy.EgressCIDRs {
		add(s.egress(cidr))
	}
	return out
}

// Assignment returns the violations of an assignment.
func (s *Settings) Assignment(spec *v1alpha1.SessionAssignmentSpec) []string {
	out := s.Template(&spec.Desktop)
	if violation := s.Host(spec.Host); violation != "" {
		out = append(out, violation)
	}
	return out
}

// Message joins violations to one message.
func Message(violations []string) string { return strings.Join(violations, "; ") }

func administratorRemedy(flag string) string {
	return fmt.Sprintf("or have the member's administrator allow it (%s)", flag)
}

// Host returns why a host of desktops is not allowed, "" if it is.
func (s *Settings) Host(host string) string {
	if len(s.HostSuffixes) == 0 || slices.ContainsFunc(s.HostSuffixes, func(suffix string) bool {
		return strings.HasSuffix(host, "."+strings.TrimPrefix(suffix, "."))
	}) {
		return ""
	}
	return fmt.Sprintf("host %q is not allowed in this member, which allows those under %s: set spec.ingressDomain of the MemberCluster to one of these, %s",
		host, summarize(s.HostSuffixes), administratorRemedy("--allowed-host-suffixes"))
}

func class(allowed []string, name, kind string) string {
	if len(allowed) == 0 || slices.Contains(allowed, cmp.Or(name, Unnamed)) {
		return ""
	}
	what := fmt.Sprintf("%s class %q is", kind, name)
	if name == "" {
		what = fmt.Sprintf("no %s class is named, which is", kind)
	}
	return fmt.Sprintf("%s not allowed in this member, which allows %s: name one of these in the template, %s",
		what, summarize(allowed), administratorRemedy("--allowed-"+kind+"-classes"))
}

// summarize returns the first entries of a list, and the number of the others.
func summarize(list []string) string {
	const most = 5
	if len(list) > most {
		return strings.Join(list[:most], ", ") + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return strings.Join(list, ", ")
}

func (s *Settings) image(image string) string {
	if len(s.ImagePrefixes) == 0 || slices.ContainsFunc(s.ImagePrefixes, func(prefix string) bool { return hasPrefix(image, prefix) }) {
		return ""
	}
	return fmt.Sprintf("image %q is not allowed in this member, which allows those of %s: use one of these, %s",
		image, summarize(s.ImagePrefixes), administratorRemedy("--allowed-image-prefixes"))
}

// hasPrefix reports whether an image is of a registry or repository. A prefix must end where
// a part of the name does: registry.example is not a prefix of registry.example.org.
func hasPrefix(image, prefix string) bool {
	suffix, found := strings.CutPrefix(Qualified(image), qualifiedPrefix(prefix))
	return found && (strings.HasSuffix(prefix, "/") || suffix == "" || strings.HasPrefix(suffix, "/") ||
		!hostOnly(prefix) && strings.ContainsAny(suffix[:1], ":@"))
}

// Qualified returns an image name with its registry, as container runtimes parse it.
func Qualified(image string) string {
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
	return Qualified(prefix)
}

// hostOnly reports whether a prefix names a registry alone.
func hostOnly(prefix string) bool { return !strings.Contains(prefix, "/") && isHost(prefix) }

func isHost(first string) bool { return first == "localhost" || strings.ContainsAny(first, ".:") }

// controlPlane has the keys of the taints of control plane nodes.
var controlPlane = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/etcd"}

func (s *Settings) tolerations(all []corev1.Toleration) string {
	if s.ControlPlane {
		return ""
	}
	for _, t := range all {
		switch {
		case t.Key == "":
			return "a toleration of every taint is not allowed in this member, since it includes the control plane's: set the key of the taint, " + administratorRemedy("--allow-control-plane")
		case slices.Contains(controlPlane, t.Key):
			return fmt.Sprintf("a toleration of the control plane's taint %s is not allowed in this member: remove it from the template, %s", t.Key, administratorRemedy("--allow-control-plane"))
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
	case !s.LinkLocalEgress && slices.ContainsFunc(linkLocal, prefix.Overlaps):
		return fmt.Sprintf("egress CIDR %s has link-local addresses, where clouds serve the credentials of nodes, which is not allowed in this member: use narrower ranges without them, %s",
			cidr, administratorRemedy("--allow-link-local-egress"))
	case !s.PrivateEgress && slices.ContainsFunc(notPublic, prefix.Overlaps):
		return fmt.Sprintf("egress CIDR %s has addresses that are not public, which is not allowed in this member: remove it from the template, %s",
			cidr, administratorRemedy("--allow-private-egress"))
	}
	return ""
}
