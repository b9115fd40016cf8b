package hub

import (
	"fmt"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/identity"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
)

// Timings of the hub's certificate authority, before the time factor.
const (
	// agentCertificateLifetime is short, so that a stolen certificate expires soon.
	agentCertificateLifetime = 24 * time.Hour
	// authorityInterval is how often the CA's Secret is checked.
	authorityInterval = 10 * time.Second
)

// issuesCertificates reports whether this hub is its own certificate authority: it is
// unless the certificates of another one are configured.
func (o *LinkOptions) issuesCertificates() bool {
	return o.TLSCertFile == "" && o.TLSKeyFile == "" && o.ClientCAFile == ""
}

// linkNames returns the names in the hub's certificate. They always include that of its
// Service: kubectl vdi join configures it as the server name of agents, whatever address
// they dial.
func (o *Options) linkNames() []string {
	return append([]string{"vdi-hub." + o.Namespace + ".svc", "localhost"}, o.LinkDNSNames...)
}

func checkLinkName(name string) error {
	if _, err := netip.ParseAddr(name); err == nil {
		return nil
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("--link-dns-name %q is neither a DNS name nor an IP address", name)
	}
	return nil
}

// addAuthority adds the hub's certificate authority, which runs on the leader; it returns
// nil if another authority issues certificates.
func addAuthority(mgr ctrl.Manager, f *member.Fleet, now func() time.Time, o Options) (*identity.Authority, error) {
	if !o.issuesCertificates() {
		return nil, nil
	}
	authority := identity.New(identity.Options{
		Client:      mgr.GetClient(),
		Live:        mgr.GetAPIReader(),
		Recorder:    mgr.GetEventRecorder("vdi-hub"),
		Namespace:   o.Namespace,
		TrustDomain: o.TrustDomain,
		Names:       o.linkNames(),
		Lifetime:    o.scaled(agentCertificateLifetime),
		Interval:    o.scaled(authorityInterval),
		Now:         now,
		Name:        f.NameOf,
		Changed:     func(mc *v1alpha1.MemberCluster) { f.Register(mc) },
	})
	if err := authority.SetupWithManager(mgr); err != nil {
		return nil, fmt.Errorf("setting up the controller of members' access: %w", err)
	}
	if err := mgr.Add(authority); err != nil {
		return nil, fmt.Errorf("adding the certificate authority: %w", err)
	}
	return authority, nil
}
