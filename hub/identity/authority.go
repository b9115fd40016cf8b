package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
)

// Options of an Authority. All are needed.
type Options struct {
	// Client writes, and reads members from the hub's cache.
	Client client.Client
	// Live reads from the API server.
	Live client.Reader
	// Recorder of events.
	Recorder events.EventRecorder
	// Namespace of the hub, where the Secrets are.
	Namespace string
	// TrustDomain of all identities.
	TrustDomain string
	// Names (DNS or IP) by which agents dial the hub.
	Names []string
	// Lifetime of agents' certificates.
	Lifetime time.Duration
	// Interval at which the Secret is checked.
	Interval time.Duration
	// Now is the hub's clock; see SteadyClock.
	Now func() time.Time
	// Name returns the name of the member of a UID, and false if there is none.
	Name func(types.UID) (string, bool)
	// Changed is called after a MemberCluster was written, since an agent may dial with
	// its certificate before the hub's cache has it.
	Changed func(*v1alpha1.MemberCluster)
}

// Authority is the hub's certificate authority (link.Authority). Its methods may
// be called by several goroutines.
type Authority struct {
	options Options
	ca      *ca
	members members
	tokens  tokens
}

var (
	_ link.Authority                 = &Authority{}
	_ manager.LeaderElectionRunnable = &Authority{}
)

// New returns an authority; Prepare must return before it is used.
func New(o Options) *Authority {
	a := &Authority{options: o}
	a.ca, a.members.options, a.tokens.options = &ca{options: &a.options}, &a.options, &a.options
	return a
}

// Prepare reads the CA, or creates the first one. Later calls do nothing.
func (a *Authority) Prepare(ctx context.Context) error { return a.ca.prepare(ctx) }

// Certificates returns the hub's certificate and the CAs that it trusts (link.Authority).
func (a *Authority) Certificates() (*tls.Certificate, *x509.CertPool, error) {
	s := a.ca.current.Load()
	if s == nil {
		return nil, nil, errNotReady
	}
	return s.serving, s.pool, nil
}

// RotationDue reports whether an agent must rotate at once (link.Authority): it reports
// another trust bundle, or its certificate is of another CA than the one that issues.
func (a *Authority) RotationDue(caller link.Caller, trustBundleHash string) bool {
	s := a.ca.current.Load()
	return s != nil &&
		(trustBundleHash != "" && trustBundleHash != s.bundleHash || caller.IssuerHash != "" && caller.IssuerHash != s.issuerHash)
}

// NeedLeaderElection is true: the leader alone issues.
func (a *Authority) NeedLeaderElection() bool { return true }

// Start maintains the CA, the serving certificate and the tokens until the context ends.
func (a *Authority) Start(ctx context.Context) error {
	var last error
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := a.maintain(ctx)
		// The same error is logged once.
		if err != nil && ctx.Err() == nil && (last == nil || last.Error() != err.Error()) {
			log.FromContext(ctx).Error(err, "Maintaining the hub's CA failed")
		}
		last = err
	}, a.options.Interval)
	return nil
}

// maintain does all that is due.
func (a *Authority) maintain(ctx context.Context) error {
	if err := a.ca.prepare(ctx); err != nil {
		return err
	}
	return errors.Join(a.ca.maintain(ctx), a.tokens.sweep(ctx))
}
