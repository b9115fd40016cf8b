package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Reasons for which a person is needed.
var (
	errNotJoined = errors.New("this agent has not joined a fleet")
	errRefused   = errors.New("no certificate of this agent is taken by the hub")
	errToken     = errors.New("what was given is not a join token")
	errNoPin     = errors.New("no hash of the hub's CA was given with the join token")
)

// join takes up a token that was not used yet, and complains if there is none
// and one is needed.
func (k *Keeper) join(ctx context.Context) error {
	b, err := k.bootstrap(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("looking for a join token: %w", err)
	case b.token == "":
		return k.needed()
	case v1alpha1.JoinTokenSum(b.token) == k.state.token:
		if err := k.store.forgetToken(ctx, b); err != nil {
			log.FromContext(ctx).Error(err, "a join token that is used up is still there, will retry")
		}
		return k.needed()
	}
	err = k.enroll(ctx, b)
	metricEnrolments.WithLabelValues(outcome(err)).Inc()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("joining the fleet with a token: %w", err)
	if permanent(err) {
		err = k.operatorError(err)
	}
	return err
}

// operatorError is one that only a person can do something about.
type operatorError struct{ error }

func (e operatorError) Unwrap() error { return e.error }

// operatorError adds what is to be done.
func (k *Keeper) operatorError(err error) error {
	name := cmp.Or(k.options.Member, "NAME")
	return operatorError{fmt.Errorf("%w; to join again run `kubectl vdi join %s ...` for the hub's cluster and the command that it prints for this one", err, name)}
}

// needed says why a token is needed: there is no pair, or all were refused.
func (k *Keeper) needed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	stored := k.state.pairs()
	switch {
	case slices.ContainsFunc(stored, func(p *pair) bool { return !k.refused[p.serial()] }):
		return nil
	case len(stored) > 0:
		return k.operatorError(fmt.Errorf("%w: %w", errRefused, k.refusal))
	}
	return k.operatorError(errNotJoined)
}

// bootstrap returns what the Secret says, or else the flags.
func (k *Keeper) bootstrap(ctx context.Context) (bootstrap, error) {
	b, err := k.store.bootstrap(ctx)
	if err != nil {
		return b, err
	}
	if b.token == "" && k.options.TokenFile != "" {
		text, err := os.ReadFile(k.options.TokenFile)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return b, err
		}
		b = bootstrap{token: strings.TrimSpace(string(text)), pins: b.pins}
	}
	if len(k.options.CAHashes) > 0 {
		b.pins = k.options.CAHashes
	}
	return b, nil
}

// enroll asks for a first certificate with a token.
func (k *Keeper) enroll(ctx context.Context, b bootstrap) error {
	if _, ok := v1alpha1.JoinTokenID(b.token); !ok {
		return errToken
	}
	if len(b.pins) == 0 {
		return errNoPin
	}
	fingerprint, err := k.member.Fingerprint(ctx)
	if err != nil {
		return fmt.Errorf("reading the cluster's fingerprint: %w", err)
	}
	request, asked, err := k.ask(ctx, forToken(b.token))
	if err != nil {
		return err
	}
	var response *fleetv1.EnrollResponse
	err = k.options.call(ctx, k.options.pinned(b.pins), func(ctx context.Context, hub fleetv1.FleetServiceClient) (err error) {
		response, err = hub.Enroll(ctx, &fleetv1.EnrollRequest{
			Token: b.token, CertificateRequest: request, Fingerprint: fingerprint, AgentVersion: k.options.AgentVersion,
		})
		return err
	})
	if err != nil {
		return err
	}
	answered, err := k.state.answered(response.GetCertificate(), asked)
	if err != nil {
		return err
	}
	answered.token = v1alpha1.JoinTokenSum(b.token)
	if err := k.save(ctx, answered); err != nil {
		return err
	}
	log.FromContext(ctx).Info("joined the fleet", "hub", k.options.HubAddress, "lifetime", answered.next.lifetime.String())
	k.event(corev1.EventTypeNormal, eventJoined, "The agent has joined the fleet and has a certificate.")
	if err := k.store.forgetToken(ctx, b); err != nil {
		log.FromContext(ctx).Error(err, "the join token is used up and still there, will retry")
	}
	return nil
}

// ask prepares a request to the hub: its key is durable when this returns.
func (k *Keeper) ask(ctx context.Context, purpose string) (request []byte, asked reading, err error) {
	with, err := k.state.withKey(purpose, newKey)
	if err != nil {
		return nil, asked, err
	}
	if with.pending != k.state.pending {
		if err := k.save(ctx, with); err != nil {
			return nil, asked, err
		}
	}
	if request, err = requestFor(k.state.pending.key); err != nil {
		return nil, asked, err
	}
	return request, k.readClocks(), nil
}
