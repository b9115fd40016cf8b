package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/identity/pki"
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
	// Now is the hub's clock, which nobody sets.
	Now func() time.Time
	// Changed is told of a MemberCluster as soon as it was written, lest an agent
	// dial with a certificate that the hub's cache does not know yet.
	Changed func(*v1alpha1.MemberCluster)
}

// Authority is the hub's certificate authority (link.Authority). Its methods may
// be called by several goroutines.
type Authority struct {
	options Options
	// current is nil until Prepare has returned.
	current atomic.Pointer[snapshot]

	// mu is held by what looks after CA and serving certificate.
	mu sync.Mutex
	// secret is the version of the Secret that was read last.
	secret string
	// swept is when tokens were last looked through.
	swept time.Time
	// waiting is for whom a rotation was last said to wait.
	waiting string
}

// snapshot is all that a handshake or a call needs of the CA; it is replaced,
// never changed.
type snapshot struct {
	state   pki.State
	bundle  []byte
	hash    string
	issuer  string
	pool    *x509.CertPool
	serving *tls.Certificate
}

var (
	_ link.Authority                 = &Authority{}
	_ manager.LeaderElectionRunnable = &Authority{}
)

// New makes an authority; Prepare must return before it is used.
func New(o Options) *Authority { return &Authority{options: o} }

// errNotReady: nothing is issued before the CA was read.
var errNotReady = errors.New("the hub's CA has not been read yet")

// Certificates is what the hub serves with and whom it trusts (link.Authority).
func (a *Authority) Certificates() (*tls.Certificate, *x509.CertPool, error) {
	s := a.current.Load()
	if s == nil {
		return nil, nil, errNotReady
	}
	return s.serving, s.pool, nil
}

// RotationDue is whether an agent must rotate at once (link.Authority): it does
// not trust what it should, or its certificate is not of the CA that issues. An
// agent that does not say what it trusts is left alone; it rotates in its time.
func (a *Authority) RotationDue(caller link.Caller, trustBundleHash string) bool {
	s := a.current.Load()
	return s != nil &&
		(trustBundleHash != "" && trustBundleHash != s.hash || caller.IssuerHash != "" && caller.IssuerHash != s.issuer)
}

// adopt makes a state the one in use. The serving certificate is kept as long as
// it is of the issuer and young enough.
func (a *Authority) adopt(state pki.State) error {
	now, before := a.options.Now(), a.current.Load()
	next := &snapshot{
		state:  state,
		bundle: state.BundlePEM(),
		hash:   state.BundleHash(),
		issuer: state.Issuer.Hash(),
		pool:   x509.NewCertPool(),
	}
	for _, c := range state.Bundle {
		next.pool.AddCert(c)
	}
	if before != nil && before.issuer == next.issuer && !pki.RenewalDue(before.serving.Leaf, now) {
		next.serving = before.serving
	} else {
		serving, err := a.issueServing(state.Issuer, now)
		if err != nil {
			return fmt.Errorf("issuing the hub's certificate: %w", err)
		}
		next.serving = serving
	}
	metricCAExpiry.Set(float64(state.Issuer.Certificate.NotAfter.Unix()))
	a.current.Store(next)
	return nil
}

// NeedLeaderElection is true: the leader alone issues.
func (a *Authority) NeedLeaderElection() bool { return true }

// Start looks after CA, serving certificate and tokens until the context ends.
func (a *Authority) Start(ctx context.Context) error {
	ticker := time.NewTicker(a.options.Interval)
	defer ticker.Stop()
	var last error
	for {
		err := a.look(ctx)
		// What goes on being wrong is said once.
		if err != nil && ctx.Err() == nil && (last == nil || last.Error() != err.Error()) {
			log.FromContext(ctx).Error(err, "Looking after the hub's CA failed")
		}
		last = err
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// look does all that is due: it is one pass of Start.
func (a *Authority) look(ctx context.Context) error {
	if err := a.Prepare(ctx); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return errors.Join(a.lookAtCA(ctx), a.sweepTokens(ctx))
}
