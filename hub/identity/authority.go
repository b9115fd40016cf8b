package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"

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
	// Client writes; of what it reads only the list of members may be old.
	Client client.Client
	// Live reads what stands in the API server.
	Live client.Reader
	// Recorder of events.
	Recorder events.EventRecorder
	// Namespace of the hub, where the Secrets are.
	Namespace string
	// TrustDomain of all identities.
	TrustDomain string
	// Names (DNS or IP) that agents dial the hub by.
	Names []string
	// Lifetime of agents' certificates.
	Lifetime time.Duration
	// Interval at which the Secret is looked at.
	Interval time.Duration
	// Now is the hub's clock; see SteadyClock.
	Now func() time.Time
	// Changed is told of a MemberCluster as soon as it was written, lest an agent
	// dial with a certificate that the hub's cache does not know yet.
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

// New makes an authority; Prepare must return before it is used.
func New(o Options) *Authority {
	a := &Authority{options: o}
	a.ca, a.members.options, a.tokens.options = &ca{options: &a.options}, &a.options, &a.options
	return a
}

// Prepare reads the CA, or makes the first one where there is none. It must
// return before an agent is let in; later calls do nothing.
func (a *Authority) Prepare(ctx context.Context) error { return a.ca.prepare(ctx) }

// Certificates returns what the hub serves with and the CAs that it trusts
// (link.Authority).
func (a *Authority) Certificates() (*tls.Certificate, *x509.CertPool, error) {
	s := a.ca.current.Load()
	if s == nil {
		return nil, nil, errNotReady
	}
	return s.serving, s.pool, nil
}

// RotationDue reports whether an agent must rotate at once (link.Authority): it does
// not trust the CAs that it should, or its certificate is not of the CA that issues.
// An agent that does not report what it trusts rotates in its time.
func (a *Authority) RotationDue(caller link.Caller, trustBundleHash string) bool {
	s := a.ca.current.Load()
	return s != nil &&
		(trustBundleHash != "" && trustBundleHash != s.state.BundleHash() || caller.IssuerHash != "" && caller.IssuerHash != s.state.Issuer.Hash())
}

// NeedLeaderElection is true: the leader alone issues.
func (a *Authority) NeedLeaderElection() bool { return true }

// Start looks after CA, serving certificate and tokens until the context ends.
func (a *Authority) Start(ctx context.Context) error {
	var last error
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		err := a.look(ctx)
		// The same error is logged once.
		if err != nil && ctx.Err() == nil && (last == nil || last.Error() != err.Error()) {
			log.FromContext(ctx).Error(err, "Looking after the hub's CA failed")
		}
		last = err
	}, a.options.Interval)
	return nil
}

// look does all that is due: it is one pass of Start.
func (a *Authority) look(ctx context.Context) error {
	if err := a.ca.prepare(ctx); err != nil {
		return err
	}
	return errors.Join(a.ca.maintain(ctx), a.tokens.sweep(ctx))
}
