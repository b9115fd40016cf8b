package identity

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Start rotates the certificate when it is due, until the context ends.
func (k *Keeper) Start(ctx context.Context) error {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithName("identity"))
	for {
		sleep := k.step(ctx)
		select {
		case <-k.wake:
		case <-time.After(sleep):
		case <-ctx.Done():
			return nil
		}
	}
}

// step rotates the certificate if it is due, and returns how long to sleep unless woken.
func (k *Keeper) step(ctx context.Context) time.Duration {
	k.op.Lock()
	defer k.op.Unlock()
	connected, _ := k.reported()
	if connected == nil {
		return idleInterval // The hub is not reachable, or does not accept this agent.
	}
	now, err := k.readClocks(), k.load(ctx)
	if err == nil {
		err = k.persistAccepted(ctx, connected, now)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "storing the agent's identity, will retry")
		return storeRetry
	}
	current := k.state.current
	if k.state.next != nil || !same(connected, current) {
		return idleInterval // The next certificate is about to be used.
	}
	due := current.due
	if _, requested := k.reported(); requested {
		due = 0
	}
	if until := max(current.born+due, k.notBefore) - now.boot; until > 0 {
		return min(until, part(current.lifetime, checkPart))
	}
	return k.rotate(ctx, now)
}

// reported returns what the link has reported.
func (k *Keeper) reported() (connected *link.Credential, rotateNow bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.connected, k.rotateNow
}

// storeRetry is the delay after a failed request to the member's API server.
const storeRetry = 5 * time.Second

// persistAccepted stores which certificate the hub has accepted.
func (k *Keeper) persistAccepted(ctx context.Context, connected *link.Credential, now reading) error {
	next, settled := k.state.next, k.state
	settled.next = nil
	switch {
	case next == nil:
		return nil
	case same(connected, next):
		settled.current = next
		if err := k.save(ctx, settled); err != nil {
			return err
		}
		k.failures, k.notBefore = 0, 0
		k.mu.Lock()
		k.rotateNow = false
		clear(k.refused)
		k.mu.Unlock()
		return nil
	case same(connected, k.state.current) && k.isRefused(next):
		if err := k.save(ctx, settled); err != nil {
			return err
		}
		log.FromContext(ctx).Info("the hub refused a certificate that it had issued, going on with the previous one")
		k.failed(now)
		k.mu.Lock()
		k.rotateNow = true
		clear(k.refused)
		k.mu.Unlock()
	}
	return nil
}

func (k *Keeper) isRefused(p *pair) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refused[p.serial()]
}

// failed delays the next attempt, and returns the delay.
func (k *Keeper) failed(now reading) time.Duration {
	k.failures++
	wait := retryDelay(k.failures, k.state.current.lifetime, rand.Float64())
	k.notBefore = now.boot + wait
	return wait
}

// rotate requests the next certificate, and returns how long to sleep.
func (k *Keeper) rotate(ctx context.Context, now reading) time.Duration {
	err := k.requestNext(ctx)
	metricRotations.WithLabelValues(outcome(err)).Inc()
	if err != nil {
		wait := k.failed(now)
		log.FromContext(ctx).Error(err, "rotating the agent's certificate, will retry", "in", wait.Round(time.Second).String())
		return wait
	}
	log.FromContext(ctx).V(1).Info("rotated the agent's certificate", "lifetime", k.state.next.lifetime.String())
	k.mu.Lock()
	defer k.mu.Unlock()
	close(k.replaced)
	k.replaced = make(chan struct{})
	return idleInterval
}

// requestNext requests the next certificate with the current one.
func (k *Keeper) requestNext(ctx context.Context) error {
	current := k.state.current
	request, sent, err := k.prepareRequest(ctx, forCertificate(current))
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{current.cert}, RootCAs: current.roots}
	var response *fleetv1.RotateCertificateResponse
	err = k.options.call(ctx, config, func(ctx context.Context, hub fleetv1.FleetServiceClient) (err error) {
		response, err = hub.RotateCertificate(ctx, &fleetv1.RotateCertificateRequest{CertificateRequest: request})
		return err
	})
	if err != nil {
		return fmt.Errorf("requesting a certificate: %w", err)
	}
	rotated, err := k.state.issued(response.GetCertificate(), sent)
	if err != nil {
		return err
	}
	return k.save(ctx, rotated)
}
