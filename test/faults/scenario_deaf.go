package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// How many sessions a deaf member has, and by how much each of them is edited: a
// little goes into the windows of HTTP/2 and waits there to be acknowledged; much
// does not, and the hub can't send.
const (
	deafSessions = 8
	littleEdit   = 1
	muchEdit     = 60 << 10 // a session takes 64 KiB of env and files
	envValue     = 4096     // the most that one variable holds
)

// deafMember is one that stops reading, and how the hub is to find that out.
type deafMember struct {
	*simulated
	edit     int
	foundBy  string
	sessions []*v1alpha1.VDISession
}

// deafPeerFoundOut has two members with sessions stop reading for good, of which
// one is told little and the other much, while twenty others carry on. The hub
// must end both streams and say why, and nobody else may feel it.
func deafPeerFoundOut(ctx context.Context, r *run) error {
	others, err := r.crowdOf(ctx, "beside", beside)
	if err != nil {
		return err
	}
	deaf := []*deafMember{
		{edit: littleEdit, foundBy: "has not been acknowledged for"},
		{edit: muchEdit, foundBy: "has not read a message for"},
	}
	for i, d := range deaf {
		if d.simulated, err = r.simulateRoomy(ctx, fmt.Sprintf("deaf-%d", i)); err != nil {
			return err
		}
		for n := range deafSessions {
			s, err := r.seat(ctx, fmt.Sprintf("%s-%d", d.name, n), d.simulated)
			if err != nil {
				return err
			}
			d.sessions = append(d.sessions, s)
		}
	}
	for _, d := range deaf {
		if err := r.allRun(ctx, d.sessions); err != nil {
			return err
		}
	}
	// A report that was not acknowledged before would make the agent leave first.
	if err := r.pause(ctx, 10*time.Second); err != nil {
		return err
	}
	for _, d := range deaf {
		if err := r.healthIs(ctx, d.name, v1alpha1.ReasonConnected, true); err != nil {
			return err
		}
	}
	return r.whileDeaf(ctx, deaf, others)
}

// whileDeaf measures what the others get until the hub has found out the deaf.
func (r *run) whileDeaf(ctx context.Context, deaf []*deafMember, others []*simulated) error {
	looking, cancel := context.WithCancel(ctx)
	group, gctx := errgroup.WithContext(looking)
	defer func() {
		cancel()
		_ = group.Wait()
	}()
	for _, d := range deaf {
		d.goDeaf()
		r.harm("%s reads no more, beside %d others; its %d sessions are edited by %d bytes each", d.name, len(others), len(d.sessions), d.edit)
		group.Go(func() error { return r.foundOut(gctx, d) })
	}
	found := make(chan error, 1)
	go func() { found <- group.Wait() }()
	slowest, n := time.Duration(0), 0
	for {
		before := time.Now()
		if err := r.serveBeside(ctx, n, others[n%len(others)]); err != nil {
			return err
		}
		n++
		if slowest = max(slowest, time.Since(before)); slowest > slowBeside {
			return fmt.Errorf("promise 7: a session beside deaf agents took %s to run", slowest)
		}
		select {
		case err := <-found:
			if err == nil {
				r.harm("meanwhile %d sessions began to run in the others, the slowest after %s", n, slowest.Round(10*time.Millisecond))
			}
			return err
		default:
		}
	}
}

// serveBeside has a session run in a simulated member, and every fourth time in a
// real one.
func (r *run) serveBeside(ctx context.Context, n int, at *simulated) error {
	if n%4 == 3 {
		uid, err := r.marked(ctx, n, r.member())
		if err != nil {
			return err
		}
		return r.await(ctx, "a session beside deaf agents runs", runs(uid))
	}
	s, err := r.seat(ctx, fmt.Sprintf("%s-%d", at.name, n), at)
	if err != nil {
		return err
	}
	return r.allRun(ctx, []*v1alpha1.VDISession{s})
}

// foundOut edits what a deaf member holds, one session after the other, until the
// hub says that it ended the stream since its agent did not keep up, and suspects
// the member.
func (r *run) foundOut(ctx context.Context, d *deafMember) error {
	began, n, why := time.Now(), 0, ""
	err := poll(ctx, r.scaled(2*time.Minute)+allowance, func(ctx context.Context) (err error) {
		if why, err = r.suspected(ctx, d.name); err == nil {
			return nil
		}
		n++
		return errors.Join(err, r.edit(ctx, d, n))
	})
	if err != nil {
		return fmt.Errorf("the hub did not find out that %s reads nothing: %w", d.name, err)
	}
	r.harm("%s is Suspect after %s: %s", d.name, time.Since(began).Round(100*time.Millisecond), why)
	if !strings.Contains(why, d.foundBy) {
		return fmt.Errorf("%s was told %d bytes a session, and the hub says %q, not that it %s", d.name, d.edit, why, d.foundBy)
	}
	return nil
}

// edit changes a deaf member's next session, so that the hub has an order for it.
func (r *run) edit(ctx context.Context, d *deafMember, n int) error {
	s := d.sessions[n%len(d.sessions)]
	before := s.DeepCopy()
	s.Spec.Env = nil
	for left := d.edit; left > 0; left -= envValue {
		value := strings.Repeat(string(rune('a'+n/len(d.sessions)%26)), min(left, envValue))
		s.Spec.Env = append(s.Spec.Env, v1alpha1.EnvVar{Name: fmt.Sprintf("EDIT_%d", left), Value: value})
	}
	return r.watch.hub.Patch(ctx, s.DeepCopy(), client.MergeFrom(before))
}

// suspected is nil once a member's stream was ended as stalled and it gets no new
// sessions for that; it returns how the hub says it.
func (r *run) suspected(ctx context.Context, member string) (string, error) {
	m := &v1alpha1.MemberCluster{}
	if err := r.watch.hub.Get(ctx, key("/"+member), m); err != nil {
		return "", err
	}
	connected := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionConnected)
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case connected == nil || ready == nil:
		return "", fmt.Errorf("%s has no conditions yet", member)
	case connected.Status != metav1.ConditionFalse || connected.Reason != v1alpha1.ReasonStalled:
		return "", fmt.Errorf("it is Connected=%s (%s: %s)", connected.Status, connected.Reason, connected.Message)
	case ready.Status != metav1.ConditionUnknown || ready.Reason != v1alpha1.ReasonSuspect:
		return "", fmt.Errorf("it is Ready=%s (%s: %s)", ready.Status, ready.Reason, ready.Message)
	}
	return connected.Reason + ": " + connected.Message, nil
}
