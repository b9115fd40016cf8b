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
		sleep := k.tend(ctx)
		select {
		case <-k.wake:
		case <-time.After(sleep):
		case <-ctx.Done():
			return nil
		}
	}
}

// tend does what is due, and returns how long to sleep unless woken.
func (k *Keeper) tend(ctx context.Context) time.Duration {
	k.op.Lock()
	defer k.op.Unlock()
	connected, _ := k.reported()
	if connected == nil {
		return idle // The hub would not answer, or not to this agent.
	}
	now, err := k.readClocks(), k.load(ctx)
	if err == nil {
		err = k.settle(ctx, connected, now)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "keeping the agent's identity, will retry")
		return storeRetry
	}
	current := k.state.current
	if k.state.next != nil || !same(connected, current) {
		return idle // The next one is about to be used.
	}
	due := current.due
	if _, asked := k.reported(); asked {
		due = 0
	}
	if until := max(current.born+due, k.notBefore) - now.boot; until > 0 {
		return min(until, part(current.lifetime, 1.0/lookParts))
	}
	return k.rotate(ctx, now)
}

// reported returns what the link has reported.
func (k *Keeper) reported() (connected *link.Credential, asked bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.connected, k.asked
}

// storeRetry is how long to wait for the member's API server.
const storeRetry = 5 * time.Second

// settle makes durable what follows from the hub having let a certificate in.
func (k *Keeper) settle(ctx context.Context, connected *link.Credential, now reading) error {
	next := k.state.next
	switch {
	case next == nil:
		return nil
	case same(connected, next):
		if err := k.save(ctx, k.state.used()); err != nil {
			return err
		}
		k.failures, k.notBefore = 0, 0
		k.mu.Lock()
		k.asked = false
		clear(k.refused)
		k.mu.Unlock()
		return nil
	case same(connected, k.state.current) && k.isRefused(next):
		without := k.state
		without.next = nil
		if err := k.save(ctx, without); err != nil {
			return err
		}
		log.FromContext(ctx).Info("the hub refused a certificate that it had issued, going on with the one before")
		k.failed(now)
		k.mu.Lock()
		k.asked = true
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

// failed puts the next attempt off and says for how long.
func (k *Keeper) failed(now reading) time.Duration {
	k.failures++
	wait := pause(k.failures, k.state.current.lifetime, rand.Float64())
	k.notBefore = now.boot + wait
	return wait
}

// rotate asks for the next certificate with the current one.
func (k *Keeper) rotate(ctx context.Context, now reading) time.Duration {
	err := k.askNext(ctx)
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
	return idle
}

func (k *Keeper) askNext(ctx context.Context) error {
	current := k.state.current
	request, asked, err := k.ask(ctx, forCertificate(current))
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
		return fmt.Errorf("asking the hub: %w", err)
	}
	answered, err := k.state.answered(response.GetCertificate(), asked)
	if err != nil {
		return err
	}
	return k.save(ctx, answered)
}
