package restriction

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Unnamed in a list of classes is for desktops without a class.
const Unnamed = "-"

const (
	// maxEntries and maxEntry bound each list, as the hub does.
	maxEntries = 64
	maxEntry   = 253
)

// imagePrefix is the beginning of an image's name.
var imagePrefix = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9._:]*(/[A-Za-z0-9][-A-Za-z0-9._:]*)*/?$`)

// Settings are what a member's administrator allows: AddFlags documents each. An empty list
// allows any. Defaults returns the default settings, which are not the zero value.
type Settings struct {
	// AgentNamespace can't be admitted, whatever its labels; nor can kube-*.
	AgentNamespace                                               string
	HostSuffixes, ImagePrefixes, RuntimeClasses, PriorityClasses []string
	OpenNetwork, PrivateEgress, LinkLocalEgress, ControlPlane    bool
}

// Defaults returns the default settings.
func Defaults() Settings { return Settings{OpenNetwork: true, PrivateEgress: true} }

// AddFlags defines the flags that set the settings.
func (s *Settings) AddFlags(fs *pflag.FlagSet) {
	d := Defaults()
	fs.StringSliceVar(&s.HostSuffixes, "allowed-host-suffixes", nil, "Domains of desktops' hosts, such as desktops.example.com; by default any. Orders for other hosts are refused.")
	fs.StringSliceVar(&s.ImagePrefixes, "allowed-image-prefixes", nil, "Registries or repositories of desktops' images, such as registry.example.com/desktops; by default any. One with a trailing slash allows all images below it. An image without a registry is from docker.io.")
	fs.StringSliceVar(&s.RuntimeClasses, "allowed-runtime-classes", nil, "Runtime classes that desktops may use; by default any. - allows desktops without a runtime class.")
	fs.StringSliceVar(&s.PriorityClasses, "allowed-priority-classes", nil, "Priority classes that desktops may use; by default any. - allows desktops without a priority class.")
	fs.BoolVar(&s.OpenNetwork, "allow-open-network", d.OpenNetwork, "Allow templates with network mode Open, whose desktops reach every address that the nodes reach, including a cloud's metadata service.")
	fs.BoolVar(&s.PrivateEgress, "allow-private-egress", d.PrivateEgress, "Allow templates whose egressCIDRs contain non-public addresses, such as those of the cluster's network.")
	fs.BoolVar(&s.LinkLocalEgress, "allow-link-local-egress", d.LinkLocalEgress, "Allow templates whose egressCIDRs contain link-local addresses, where clouds serve the credentials of their nodes. 169.254.20.10/32, the address of a node's DNS cache, is always allowed.")
	fs.BoolVar(&s.ControlPlane, "allow-control-plane", d.ControlPlane, "Allow templates that tolerate the taints of control plane nodes.")
}

// Validate returns all errors of the settings, by flag.
func (s *Settings) Validate() error {
	var errs []error
	for _, suffix := range s.HostSuffixes {
		if problems := validation.IsDNS1123Subdomain(strings.TrimPrefix(suffix, ".")); problems != nil {
			errs = append(errs, fmt.Errorf("--allowed-host-suffixes %q is not a domain: %s", suffix, problems[0]))
		}
	}
	for _, prefix := range s.ImagePrefixes {
		if !imagePrefix.MatchString(prefix) {
			errs = append(errs, fmt.Errorf("--allowed-image-prefixes %q is not a prefix of an image name, such as registry.example.com/desktops/", prefix))
		}
	}
	for flag, classes := range map[string][]string{"allowed-runtime-classes": s.RuntimeClasses, "allowed-priority-classes": s.PriorityClasses} {
		for _, class := range classes {
			if class != Unnamed && validation.IsDNS1123Subdomain(class) != nil {
				errs = append(errs, fmt.Errorf("--%s %q is not the name of a class; use %s for none", flag, class, Unnamed))
			}
		}
	}
	for flag, list := range map[string][]string{
		"allowed-host-suffixes": s.HostSuffixes, "allowed-image-prefixes": s.ImagePrefixes,
		"allowed-runtime-classes": s.RuntimeClasses, "allowed-priority-classes": s.PriorityClasses,
	} {
		if len(list) > maxEntries {
			errs = append(errs, fmt.Errorf("--%s has %d entries, more than %d", flag, len(list), maxEntries))
		}
		for _, entry := range list {
			if len(entry) > maxEntry {
				errs = append(errs, fmt.Errorf("--%s has an entry of %d bytes, more than %d", flag, len(entry), maxEntry))
			}
		}
	}
	if s.OpenNetwork && !s.PrivateEgress {
		errs = append(errs, errors.New("--allow-private-egress=false has no effect on network mode Open, which reaches every address: set --allow-open-network=false as well"))
	}
	return errors.Join(errs...)
}

// Wire returns the settings as reported to the hub.
func (s *Settings) Wire() *fleetv1.Restrictions {
	return &fleetv1.Restrictions{
		HostSuffixes: s.HostSuffixes, ImagePrefixes: s.ImagePrefixes,
		RuntimeClasses: s.RuntimeClasses, PriorityClasses: s.PriorityClasses,
		OpenNetwork: s.OpenNetwork, PrivateEgress: s.PrivateEgress,
		LinkLocalEgress: s.LinkLocalEgress, ControlPlane: s.ControlPlane,
	}
}

// CanBeAdmitted reports whether a namespace can be admitted. Those of Kubernetes and of the
// agent can't, whatever their labels: Pods of the latter could read the agent's certificate
// and token.
func (s *Settings) CanBeAdmitted(namespace string) bool {
	return !strings.HasPrefix(namespace, "kube-") && namespace != s.AgentNamespace
}
