package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// rotationLatency is each way, so that an answer is on its way long enough to be
// stopped there.
const rotationLatency = 300 * time.Millisecond

// callGivenUp is after which time an agent has given a call to the hub up: the
// 10 s of agent/identity, which no factor scales, and a little.
const callGivenUp = 12 * time.Second

// lostAnswers is how many answers to RotateCertificate must be lost, half of them
// in silence: a third silence would have the member in quarantine. rotationTries is
// how often it may be tried: a busy machine may be too late.
const (
	lostAnswers   = 4
	rotationTries = 3 * lostAnswers
)

// rotationAnswerLost has the hub rotate its CA, for which each agent needs new
// certificates, and loses its answers to one of the agents: by a reset, or by
// silence until the agent gives up.
func rotationAnswerLost(ctx context.Context, r *run) error {
	m := r.member()
	first, err := r.atRest(ctx, m)
	if err != nil {
		return err
	}
	resets := []bool{true, true, false, false}
	r.random.Shuffle(lostAnswers, func(i, j int) { resets[i], resets[j] = resets[j], resets[i] })
	lost, replaced := 0, 0
	for try := 0; lost < lostAnswers; try++ {
		if try == rotationTries {
			return fmt.Errorf("only %d of %d answers could be lost: the machine is too slow for it", lost, try)
		}
		before, stopped, err := r.loseAnswer(ctx, m, resets[lost])
		if err != nil {
			return err
		}
		used, was, err := r.nextCertificate(ctx, m, before, stopped)
		if err != nil {
			return err
		}
		if !was {
			r.harm("the answer with %s had arrived already: it does not count", short(stopped))
			continue
		}
		lost++
		r.harm("%s asked again with %s; the hub issued another, and %s is in use", m.Agent.Spec.Name, short(before), short(used))
		if used != before && used != stopped {
			replaced++
		}
	}
	last, err := r.atRest(ctx, m)
	if err != nil {
		return err
	}
	r.harm("%d answers were lost, and %d certificates replaced after that: %s is now %s", lost, replaced, short(first), short(last))
	if replaced < lost || first == last {
		return fmt.Errorf("of %d rotations whose answer was lost, %d were made up for; the certificate was %s and is %s", lost, replaced, first, last)
	}
	return r.connected(ctx, m)
}

// connected waits until the hub shows a member's stream open.
func (r *run) connected(ctx context.Context, m *harness.Member) error {
	return poll(ctx, r.scaled(time.Minute)+allowance, func(ctx context.Context) error {
		mc := &v1alpha1.MemberCluster{}
		if err := r.watch.hub.Get(ctx, key("/"+m.Name), mc); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha1.ConditionConnected) {
			return fmt.Errorf("the hub does not show %s connected: %v", m.Name, mc.Status.Conditions)
		}
		return nil
	})
}

func short(serial string) string { return serial[:min(len(serial), 8)] }

// certificate of a member, as the hub's API server has it.
func (r *run) certificate(ctx context.Context, m *harness.Member) (v1alpha1.MemberCertificate, error) {
	mc := &v1alpha1.MemberCluster{}
	if err := r.watch.hub.Get(ctx, key("/"+m.Name), mc); err != nil {
		return v1alpha1.MemberCertificate{}, err
	}
	if mc.Status.Certificate == nil {
		return v1alpha1.MemberCertificate{}, fmt.Errorf("%s has no certificate of the hub's", m.Name)
	}
	return *mc.Status.Certificate, nil
}

// certificateIs waits until a member's certificate is as wanted, and returns it.
func (r *run) certificateIs(ctx context.Context, m *harness.Member, what string, wanted func(v1alpha1.MemberCertificate) bool) (c v1alpha1.MemberCertificate, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.scaled(2*time.Minute)+2*allowance)
	defer cancel()
	for {
		if c, err = r.certificate(ctx, m); err == nil && wanted(c) {
			return c, nil
		}
		if over := sleep(ctx, 10*time.Millisecond); over != nil {
			return c, fmt.Errorf("waiting until %s (serial %s, next %s): %w", what, short(c.Serial), short(c.NextSerial), errors.Join(over, err))
		}
	}
}

// atRest waits until the last certificate that was issued is in use, and returns
// its serial number.
func (r *run) atRest(ctx context.Context, m *harness.Member) (string, error) {
	c, err := r.certificateIs(ctx, m, "no certificate is on its way", func(c v1alpha1.MemberCertificate) bool {
		return c.Serial != "" && c.NextSerial == ""
	})
	return c.Serial, err
}

// loseAnswer provokes a rotation, and cuts the wire towards the agent as soon as
// the hub has made the next certificate durable. What is on its way is lost.
func (r *run) loseAnswer(ctx context.Context, m *harness.Member, reset bool) (before, stopped string, err error) {
	wire := r.wires[m.Name]
	wire.set(weather{Latency: rotationLatency})
	if _, err := r.atRest(ctx, m); err != nil {
		return "", "", err
	}
	if err := r.rotateCA(ctx); err != nil {
		return "", "", err
	}
	c, err := r.certificateIs(ctx, m, "the hub has issued a certificate", func(c v1alpha1.MemberCertificate) bool { return c.NextSerial != "" })
	if err != nil {
		return "", "", err
	}
	r.weather(m.Name, weather{Latency: rotationLatency, CutToAgent: true}, fmt.Sprintf("the hub has issued %s beside %s: nothing gets to the agent", short(c.NextSerial), short(c.Serial)))
	if !reset {
		if err := sleep(ctx, callGivenUp); err != nil {
			return "", "", err
		}
	}
	wire.reset()
	how := "after a silence"
	if reset {
		how = "by a reset"
	}
	r.weather(m.Name, weather{Latency: rotationLatency}, "the answer is lost "+how+", the wire is healed")
	return c.Serial, c.NextSerial, nil
}

// rotateCA asks the hub for what asks the agents for rotations, as its runbook
// has it.
func (r *run) rotateCA(ctx context.Context) error {
	return poll(ctx, allowance, func(ctx context.Context) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: v1alpha1.AuthoritySecret}}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"now"}}}`, v1alpha1.AnnotationRotateCA)
		return r.watch.hub.Patch(ctx, secret, client.RawPatch("application/merge-patch+json", patch))
	})
}

// nextCertificate waits until the certificate before is replaced. was says that
// the one that was stopped on its way never arrived: the agent went on with the
// one before, for with no other can it have asked for one more.
func (r *run) nextCertificate(ctx context.Context, m *harness.Member, before, stopped string) (used string, was bool, err error) {
	asked := ""
	c, err := r.certificateIs(ctx, m, "the certificate is replaced", func(c v1alpha1.MemberCertificate) bool {
		if c.Serial == before && c.NextSerial != "" && c.NextSerial != stopped {
			asked = c.NextSerial
		}
		return c.Serial != before
	})
	if err != nil {
		return "", false, err
	}
	if c.Serial == stopped {
		return c.Serial, false, nil
	}
	if asked == "" {
		return "", false, fmt.Errorf("%s was replaced by %s, and nobody was seen to ask for it", before, c.Serial)
	}
	return c.Serial, true, nil
}
