package scenarios

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// rotationLatency is the latency of each direction: long enough to stop a response on its way.
const rotationLatency = 300 * time.Millisecond

// callTimeout is the time after which an agent has ended a call to the hub: the 10 s of
// agent/identity, which no factor scales, and some more.
const callTimeout = 12 * time.Second

// lostAnswers is the number of responses to RotateCertificate that must be lost, half of them in
// silence: a third silence would quarantine the member. rotationTries is the most attempts at
// that: a busy machine may be too late.
const (
	lostAnswers   = 4
	rotationTries = 3 * lostAnswers
)

// rotationAnswerLost makes the hub rotate its CA, for which each agent needs new certificates, and
// loses the responses to one of the agents: by a reset, or by silence until the call times out.
func rotationAnswerLost(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	first, err := settledCertificate(ctx, r, m)
	if err != nil {
		return err
	}
	resets := []bool{true, true, false, false}
	r.Random.Shuffle(lostAnswers, func(i, j int) { resets[i], resets[j] = resets[j], resets[i] })
	lost, replaced := 0, 0
	for try := 0; lost < lostAnswers; try++ {
		if try == rotationTries {
			return fmt.Errorf("only %d of %d answers could be lost: the machine is too slow for it", lost, try)
		}
		before, stopped, err := loseAnswer(ctx, r, m, resets[lost])
		if err != nil {
			return err
		}
		used, was, err := nextCertificate(ctx, r, m, before, stopped)
		if err != nil {
			return err
		}
		if !was {
			r.Record("the answer with %s had arrived already: it does not count", short(stopped))
			continue
		}
		lost++
		r.Record("%s requested again with %s; the hub issued another, and %s is in use", m.Agent.Spec.Name, short(before), short(used))
		if used != before && used != stopped {
			replaced++
		}
	}
	last, err := settledCertificate(ctx, r, m)
	if err != nil {
		return err
	}
	r.Record("%d answers were lost, and %d certificates replaced after that: %s is now %s", lost, replaced, short(first), short(last))
	if replaced < lost || first == last {
		return fmt.Errorf("of %d rotations whose answer was lost, %d were made up for; the certificate was %s and is %s", lost, replaced, first, last)
	}
	return runner.AwaitConnected(ctx, r, m)
}

func short(serial string) string { return serial[:min(len(serial), 8)] }

// certificate returns a member's certificate from the hub's API server.
func certificate(ctx context.Context, r *runner.Run, m *harness.Member) (v1alpha1.MemberCertificate, error) {
	mc := &v1alpha1.MemberCluster{}
	if err := r.Watch.Hub.Get(ctx, watch.Key("/"+m.Name), mc); err != nil {
		return v1alpha1.MemberCertificate{}, err
	}
	if mc.Status.Certificate == nil {
		return v1alpha1.MemberCertificate{}, fmt.Errorf("%s has no certificate of the hub's", m.Name)
	}
	return *mc.Status.Certificate, nil
}

// certificateIs waits until a member's certificate is as wanted, and returns it.
func certificateIs(ctx context.Context, r *runner.Run, m *harness.Member, what string, wanted func(v1alpha1.MemberCertificate) bool) (c v1alpha1.MemberCertificate, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Scaled(2*time.Minute)+2*stage.Allowance)
	defer cancel()
	for {
		if c, err = certificate(ctx, r, m); err == nil && wanted(c) {
			return c, nil
		}
		if over := stage.Sleep(ctx, 10*time.Millisecond); over != nil {
			return c, fmt.Errorf("waiting until %s (serial %s, next %s): %w", what, short(c.Serial), short(c.NextSerial), errors.Join(over, err))
		}
	}
}

// settledCertificate waits until the last issued certificate is in use, and returns its serial
// number.
func settledCertificate(ctx context.Context, r *runner.Run, m *harness.Member) (string, error) {
	c, err := certificateIs(ctx, r, m, "no certificate is on its way", func(c v1alpha1.MemberCertificate) bool {
		return c.Serial != "" && c.NextSerial == ""
	})
	return c.Serial, err
}

// loseAnswer starts a rotation, and cuts the link toward the agent as soon as the next certificate
// is durable on the hub. What is on its way is lost.
func loseAnswer(ctx context.Context, r *runner.Run, m *harness.Member, reset bool) (before, stopped string, err error) {
	link := r.Links[m.Name]
	link.Set(netem.Conditions{Latency: rotationLatency})
	if _, err := settledCertificate(ctx, r, m); err != nil {
		return "", "", err
	}
	if err := rotateCA(ctx, r); err != nil {
		return "", "", err
	}
	c, err := certificateIs(ctx, r, m, "the hub has issued a certificate", func(c v1alpha1.MemberCertificate) bool { return c.NextSerial != "" })
	if err != nil {
		return "", "", err
	}
	r.SetNetwork(m.Name, netem.Conditions{Latency: rotationLatency, CutToAgent: true}, fmt.Sprintf("the hub has issued %s beside %s: nothing gets to the agent", short(c.NextSerial), short(c.Serial)))
	if !reset {
		if err := stage.Sleep(ctx, callTimeout); err != nil {
			return "", "", err
		}
	}
	link.Reset()
	how := "after a silence"
	if reset {
		how = "by a reset"
	}
	r.SetNetwork(m.Name, netem.Conditions{Latency: rotationLatency}, "the answer is lost "+how+", the link is restored")
	return c.Serial, c.NextSerial, nil
}

// rotateCA requests a new CA of the hub as the runbook does, so that agents rotate.
func rotateCA(ctx context.Context, r *runner.Run) error {
	return stage.Poll(ctx, stage.Allowance, func(ctx context.Context) error {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: v1alpha1.AuthoritySecret}}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"now"}}}`, v1alpha1.AnnotationRotateCA)
		return r.Watch.Hub.Patch(ctx, secret, client.RawPatch("application/merge-patch+json", patch))
	})
}

// nextCertificate waits until the certificate before is replaced, and returns the next one. was
// reports whether the response with stopped was lost: the agent requested another one with before.
func nextCertificate(ctx context.Context, r *runner.Run, m *harness.Member, before, stopped string) (used string, was bool, err error) {
	requested := ""
	c, err := certificateIs(ctx, r, m, "the certificate is replaced", func(c v1alpha1.MemberCertificate) bool {
		if c.Serial == before && c.NextSerial != "" && c.NextSerial != stopped {
			requested = c.NextSerial
		}
		return c.Serial != before
	})
	if err != nil {
		return "", false, err
	}
	if c.Serial == stopped {
		return c.Serial, false, nil
	}
	if requested == "" {
		return "", false, fmt.Errorf("%s was replaced by %s, and no agent was seen to request it", before, c.Serial)
	}
	return c.Serial, true, nil
}
