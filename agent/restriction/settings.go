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

// Unnamed stands in a list of classes for desktops that name none.
const Unnamed = "-"

const (
	// maxEntries and maxEntry bound each list, as the hub does.
	maxEntries = 64
	maxEntry   = 253
)

// imagePrefix is the beginning of an image's name.
var imagePrefix = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9._:]*(/[A-Za-z0-9][-A-Za-z0-9._:]*)*/?$`)

// Settings are what a member's administrator allows: AddFlags explains each by its flag. An
// empty list allows any. The zero value allows no Open networks; Defaults returns what
// applies where nothing is set.
type Settings struct {
	// AgentNamespace never holds sessions, whatever its labels; nor does kube-*.
	AgentNamespace                                               string
	HostSuffixes, ImagePrefixes, RuntimeClasses, PriorityClasses []string
	OpenNetwork, PrivateEgress, LinkLocalEgress, ControlPlane    bool
}

// Defaults returns what applies where nothing is set.
func Defaults() Settings { return Settings{OpenNetwork: true, PrivateEgress: true} }

// AddFlags defines the flags that set the settings.
func (s *Settings) AddFlags(fs *pflag.FlagSet) {
	d := Defaults()
	fs.StringSliceVar(&s.HostSuffixes, "allowed-host-suffixes", nil, "Domains under which the hosts of desktops may be, such as desktops.example.com; by default any. The hub's orders for other hosts are refused.")
	fs.StringSliceVar(&s.ImagePrefixes, "allowed-image-prefixes", nil, "Registries or repositories of which desktops' images may be, such as registry.example.com/desktops; by default any. One that ends in a slash allows all below it. An image without a registry is of docker.io.")
	fs.StringSliceVar(&s.RuntimeClasses, "allowed-runtime-classes", nil, "Runtime classes that desktops may name; by default any. - is for those that name none and have the nodes' own.")
	fs.StringSliceVar(&s.PriorityClasses, "allowed-priority-classes", nil, "Priority classes that desktops may name; by default any. - is for those that name none and have the cluster's default.")
	fs.BoolVar(&s.OpenNetwork, "allow-open-network", d.OpenNetwork, "Allow templates of network mode Open, whose desktops reach all that this cluster's nodes reach, a cloud's metadata service included.")
	fs.BoolVar(&s.PrivateEgress, "allow-private-egress", d.PrivateEgress, "Allow templates whose egressCIDRs have addresses that are not public, such as those of the cluster's own network.")
	fs.BoolVar(&s.LinkLocalEgress, "allow-link-local-egress", d.LinkLocalEgress, "Allow templates whose egressCIDRs have link-local addresses, where clouds serve the credentials of their nodes. That of a node's DNS cache, 169.254.20.10/32, is always allowed.")
	fs.BoolVar(&s.ControlPlane, "allow-control-plane", d.ControlPlane, "Allow templates that tolerate the taints of the control plane's nodes.")
}

// Validate says what is wrong with the settings, by flag.
func (s *Settings) Validate() error {
	var errs []error
	for _, suffix := range s.HostSuffixes {
		if problems := validation.IsDNS1123Subdomain(strings.TrimPrefix(suffix, ".")); problems != nil {
			errs = append(errs, fmt.Errorf("--allowed-host-suffixes %q is no domain: %s", suffix, problems[0]))
		}
	}
	for _, prefix := range s.ImagePrefixes {
		if !imagePrefix.MatchString(prefix) {
			errs = append(errs, fmt.Errorf("--allowed-image-prefixes %q is no beginning of an image's name, such as registry.example.com/desktops/", prefix))
		}
	}
	for flag, classes := range map[string][]string{"allowed-runtime-classes": s.RuntimeClasses, "allowed-priority-classes": s.PriorityClasses} {
		for _, class := range classes {
			if class != Unnamed && validation.IsDNS1123Subdomain(class) != nil {
				errs = append(errs, fmt.Errorf("--%s %q is no name of a class; %s stands for none", flag, class, Unnamed))
			}
		}
	}
	for flag, list := range map[string][]string{
		"allowed-host-suffixes": s.HostSuffixes, "allowed-image-prefixes": s.ImagePrefixes,
		"allowed-runtime-classes": s.RuntimeClasses, "allowed-priority-classes": s.PriorityClasses,
	} {
		if err := bound(list); err != nil {
			errs = append(errs, fmt.Errorf("--%s has %w", flag, err))
		}
	}
	if s.OpenNetwork && !s.PrivateEgress {
		errs = append(errs, errors.New("--allow-private-egress=false is of no use with network mode Open, which reaches every address: set --allow-open-network=false as well"))
	}
	return errors.Join(errs...)
}

func bound(list []string) error {
	if len(list) > maxEntries {
		return fmt.Errorf("%d entries, more than %d", len(list), maxEntries)
	}
	for _, entry := range list {
		if len(entry) > maxEntry {
			return fmt.Errorf("an entry of %d bytes, more than %d", len(entry), maxEntry)
		}
	}
	return nil
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

// MayHoldSessions reports whether a namespace can be admitted at all. Those of
// Kubernetes and the agent's own can't, whatever their labels: what runs in the
// latter could take the agent's certificate and token.
func (s *Settings) MayHoldSessions(namespace string) bool {
	return !strings.HasPrefix(namespace, "kube-") && namespace != s.AgentNamespace
}
