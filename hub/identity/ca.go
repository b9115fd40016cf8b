package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/identity/pki"
)

// Reasons of the events on the CA's Secret.
const (
	// EventRotationBegan: a rotation of the CA began; agents are sent both CAs.
	EventRotationBegan = "CARotationBegan"
	// EventRotationSigning: the new CA issues certificates.
	EventRotationSigning = "CARotationSigning"
	// EventRotationFinished: the old CA is not trusted any more.
	EventRotationFinished = "CARotationFinished"
)

// ca is the hub's CA: it reads the CA from its Secret, issues certificates, and rotates
// the CA.
type ca struct {
	options *Options
	// current is nil until prepare has returned.
	current atomic.Pointer[snapshot]

	// mu is held while the CA or the serving certificate changes.
	mu sync.Mutex
	// secret is the last resource version of the Secret.
	secret string
	// waiting is the last log message about the members that a rotation waits for.
	waiting string
}

// snapshot is the state of the CA for handshakes and calls; it is replaced, never changed.
type snapshot struct {
	state   pki.State
	pool    *x509.CertPool
	serving *tls.Certificate
	// bundleHash and issuerHash are the state's, which every renewal needs.
	bundleHash, issuerHash string
}

var errNotReady = errors.New("the hub's CA has not been read yet")

// adopt makes a state current. The serving certificate is kept until its renewal is due
// or another CA issues.
func (c *ca) adopt(state pki.State) error {
	now, before := c.options.Now(), c.current.Load()
	next := &snapshot{state: state, pool: x509.NewCertPool(), bundleHash: state.BundleHash(), issuerHash: state.Issuer.Hash()}
	for _, certificate := range state.Bundle {
		next.pool.AddCert(certificate)
	}
	if before != nil && before.issuerHash == next.issuerHash && !pki.RenewalDue(before.serving.Leaf, now) {
		next.serving = before.serving
	} else {
		serving, err := c.issueServing(state.Issuer, now)
		if err != nil {
			return fmt.Errorf("issuing the hub's certificate: %w", err)
		}
		next.serving = serving
	}
	metricCAExpiry.Set(float64(state.Issuer.Certificate.NotAfter.Unix()))
	c.current.Store(next)
	return nil
}

// maxNamed is how many members a log message names.
const maxNamed = 10

// maintain reads the Secret again, renews the hub's certificate, and executes the step
// of a rotation that is due.
func (c *ca) maintain(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	secret, _, err := c.secretOnce(ctx, func() (pki.State, error) {
		log.FromContext(ctx).Info("The Secret of the hub's CA was deleted: recreating it")
		return c.current.Load().state, nil
	})
	if err != nil {
		return err
	}
	if secret.ResourceVersion != c.secret {
		if err := c.adoptSecret(secret); err != nil {
			return err
		}
	} else if s := c.current.Load(); pki.RenewalDue(s.serving.Leaf, c.options.Now()) {
		if err := c.adopt(s.state); err != nil {
			return err
		}
	}
	return c.rotate(ctx, secret)
}

func (c *ca) rotate(ctx context.Context, secret *corev1.Secret) error {
	state, now := c.current.Load().state, c.options.Now()
	members := &v1alpha1.MemberClusterList{}
	if state.Stage != pki.StageStable {
		if err := c.options.Live.List(ctx, members); err != nil {
			return fmt.Errorf("listing the members: %w", err)
		}
	}
	_, requested := secret.Annotations[v1alpha1.AnnotationRotateCA]
	step, waiting := state.StepDue(requested, members.Items, c.options.Lifetime, now)
	var reason, note string
	switch step {
	case pki.StepNone:
		c.logWaiting(ctx, state.Stage, waiting)
		return nil
	case pki.StepBegin:
		next, err := newCA(now)
		if err != nil {
			return fmt.Errorf("creating the next CA: %w", err)
		}
		state = state.Begin(next, now)
		reason, note = EventRotationBegan, "agents are sent both CAs; the next one is "+next.Hash()
	case pki.StepSign:
		state = state.Sign(now)
		reason, note = EventRotationSigning, "the new CA issues from now on; agents rotate their certificates"
	case pki.StepFinish:
		state = state.Finish(now)
		reason, note = EventRotationFinished, "the old CA is not trusted any more"
	}
	if err := c.saveState(ctx, secret, state); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Rotating the hub's CA", "stage", state.Stage, "step", step)
	c.options.Recorder.Eventf(secret, nil, corev1.EventTypeNormal, reason, "RotateCA", "%s", note)
	return nil
}

// logWaiting logs the members that a rotation waits for, whenever they change.
func (c *ca) logWaiting(ctx context.Context, stage pki.Stage, waiting []string) {
	members := strings.Join(waiting[:min(len(waiting), maxNamed)], ",")
	if text := fmt.Sprint(stage, len(waiting), members); text != c.waiting && len(waiting) > 0 {
		log.FromContext(ctx).V(1).Info("The rotation of the hub's CA waits for members",
			"stage", stage, "count", len(waiting), "members", members)
		c.waiting = text
	}
}
