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

// Errors that require an operator.
var (
	errNotJoined = errors.New("this agent has not joined a fleet")
	errRefused   = errors.New("the hub accepts no certificate of this agent")
	errToken     = errors.New("the given text is not a join token")
	errNoPin     = errors.New("the join token comes without a hash of the hub's CA")
)

// join enrolls with a token that was not used yet. It returns an error if a token is
// required and there is none.
func (k *Keeper) join(ctx context.Context) error {
	b, err := k.bootstrap(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("reading the join token: %w", err)
	case b.token == "":
		return k.requireToken()
	case v1alpha1.JoinTokenSum(b.token) == k.state.token:
		if err := k.store.deleteToken(ctx, b); err != nil {
			log.FromContext(ctx).Error(err, "deleting a used join token, will retry")
		}
		return k.requireToken()
	}
	err = k.enroll(ctx, b)
	metricEnrollments.WithLabelValues(outcome(err)).Inc()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("joining the fleet with a token: %w", err)
	if permanent(err) {
		err = k.operatorError(err)
	}
	return err
}

// operatorError is an error that only an operator can remedy.
type operatorError struct{ error }

func (e operatorError) Unwrap() error { return e.error }

// operatorError adds the remedy.
func (k *Keeper) operatorError(err error) error {
	name := cmp.Or(k.options.Member, "NAME")
	return operatorError{fmt.Errorf("%w; to join again run `kubectl vdi join %s ...` for the hub's cluster and the command that it prints for this one", err, name)}
}

// requireToken returns why a token is required, if so: there is no pair, or all were
// refused.
func (k *Keeper) requireToken() error {
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

// bootstrap returns the token and hashes of the Secret, or else of the flags.
func (k *Keeper) bootstrap(ctx context.Context) (bootstrap, error) {
	secret := &corev1.Secret{}
	if err := k.store.Read(ctx, v1alpha1.AgentBootstrap, secret); err != nil {
		return bootstrap{}, err
	}
	b := bootstrap{
		token:  strings.TrimSpace(string(secret.Data[v1alpha1.BootstrapToken])),
		pins:   strings.FieldsFunc(string(secret.Data[v1alpha1.BootstrapCAHash]), func(r rune) bool { return strings.ContainsRune(", \n", r) }),
		secret: secret,
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

// enroll requests a certificate with a token.
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
	request, sent, err := k.prepareRequest(ctx, forToken(b.token))
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
	enrolled, err := k.state.issued(response.GetCertificate(), sent)
	if err != nil {
		return err
	}
	enrolled.token = v1alpha1.JoinTokenSum(b.token)
	if err := k.save(ctx, enrolled); err != nil {
		return err
	}
	log.FromContext(ctx).Info("joined the fleet", "hub", k.options.HubAddress, "lifetime", enrolled.next.lifetime.String())
	k.event(corev1.EventTypeNormal, eventJoined, "The agent has joined the fleet and has a certificate.")
	if err := k.store.deleteToken(ctx, b); err != nil {
		log.FromContext(ctx).Error(err, "deleting the used join token, will retry")
	}
	return nil
}

// prepareRequest prepares a certificate request, whose key is then durable.
func (k *Keeper) prepareRequest(ctx context.Context, purpose string) (request []byte, sent reading, err error) {
	// A lost answer is requested again with the same key.
	if k.state.pending == nil || k.state.pending.purpose != purpose {
		key, err := newKey()
		if err != nil {
			return nil, sent, err
		}
		with := k.state
		with.pending = &pending{key: key, purpose: purpose}
		if err := k.save(ctx, with); err != nil {
			return nil, sent, err
		}
	}
	if request, err = requestFor(k.state.pending.key); err != nil {
		return nil, sent, err
	}
	return request, k.readClocks(), nil
}
