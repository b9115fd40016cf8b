package hostile

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/simulated"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
)

// stalledSessions is the number of sessions of a stalled member, each of which is edited. Each edit is an order
// with the session's whole desktop. The hub sends eight before it waits for an acknowledgment: eight of
// workload.PlainTemplate fit into the HTTP/2 window of 1 MiB, and eight of stalledTemplate block the hub's sends: it
// has nearly as large files as a template may have.
const (
	stalledSessions = 8
	stalledTemplate = "faults-large"
	stalledFiles    = 15
	stalledFile     = 16 << 10 // bytes
)

// stalledMember is a member that stops reading; foundBy is how the hub must report that.
type stalledMember struct {
	*simulated.Agent
	template string
	foundBy  string
	sessions []*v1alpha1.VDISession
}

// stalledPeerFound stops reading in two members with sessions, one with small orders and one with
// large ones, beside otherAgents that read. The hub must end both streams and report why, and no
// other member may be affected.
func stalledPeerFound(ctx context.Context, r *runner.Run) error {
	others, err := runner.SimulateMembers(ctx, r, "beside", otherAgents)
	if err != nil {
		return err
	}
	if err := createStalledTemplate(ctx, r); err != nil {
		return err
	}
	stalled := []*stalledMember{
		{template: workload.PlainTemplate, foundBy: "has not been acknowledged for"},
		{template: stalledTemplate, foundBy: "has not read a message for"},
	}
	for i, d := range stalled {
		if d.Agent, err = runner.SimulateMember(ctx, r, fmt.Sprintf("stalled-%d", i)); err != nil {
			return err
		}
		for n := range stalledSessions {
			s, err := runner.CreateSimulatedSession(ctx, r, fmt.Sprintf("%s-%d", d.Name, n), d.Agent,
				func(s *v1alpha1.SessionSpec) { s.Template = d.template })
			if err != nil {
				return err
			}
			d.sessions = append(d.sessions, s)
		}
	}
	for _, d := range stalled {
		if err := runner.AwaitAllRunning(ctx, r, d.sessions); err != nil {
			return err
		}
	}
	// A report that was not acknowledged before would make the agent close the stream first.
	if err := r.Pause(ctx, 10*time.Second); err != nil {
		return err
	}
	for _, d := range stalled {
		if err := runner.AwaitReadyReason(ctx, r, d.Name, v1alpha1.ReasonConnected, true); err != nil {
			return err
		}
	}
	return whileStalled(ctx, r, stalled, others)
}

// createStalledTemplate creates the template with files, and waits until every member can run it.
func createStalledTemplate(ctx context.Context, r *runner.Run) error {
	t := &v1alpha1.VDITemplate{}
	if err := r.Watch.Hub.Get(ctx, client.ObjectKey{Name: workload.PlainTemplate}, t); err != nil {
		return err
	}
	t = &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: stalledTemplate}, Spec: t.Spec}
	for i := range stalledFiles {
		t.Spec.Files = append(t.Spec.Files, v1alpha1.ConfigFile{Name: fmt.Sprintf("file-%d", i), Content: strings.Repeat("x", stalledFile)})
	}
	if err := client.IgnoreAlreadyExists(r.Watch.Hub.Create(ctx, t)); err != nil {
		return err
	}
	return r.AwaitTemplates(ctx, stalledTemplate)
}

// whileStalled makes sessions run in the others until the hub detects the stalled members.
func whileStalled(ctx context.Context, r *runner.Run, stalled []*stalledMember, others []*simulated.Agent) error {
	watching, cancel := context.WithCancel(ctx)
	group, gctx := errgroup.WithContext(watching)
	defer func() {
		cancel()
		_ = group.Wait()
	}()
	for _, d := range stalled {
		d.StopReading()
		r.Record("%s reads no more, beside %d others; its %d sessions of template %s are changed", d.Name, len(others), len(d.sessions), d.template)
		group.Go(func() error { return awaitFound(gctx, r, d) })
	}
	found := make(chan error, 1)
	go func() { found <- group.Wait() }()
	slowest, n := time.Duration(0), 0
	for {
		before := time.Now()
		if err := serveOthers(ctx, r, n, others[n%len(others)]); err != nil {
			return err
		}
		n++
		if slowest = max(slowest, time.Since(before)); slowest > slowSession {
			return fmt.Errorf("G7: a session beside stalled agents took %s to run", slowest)
		}
		select {
		case err := <-found:
			if err == nil {
				r.Record("meanwhile %d sessions began to run in the others, the slowest after %s", n, slowest.Round(10*time.Millisecond))
			}
			return err
		default:
		}
	}
}

// serveOthers makes a session run in a simulated member, and every fourth time in a real one.
func serveOthers(ctx context.Context, r *runner.Run, n int, at *simulated.Agent) error {
	if n%4 == 3 {
		uid, err := runner.CreateSession(ctx, r, n, r.RandomMember())
		if err != nil {
			return err
		}
		return r.Await(ctx, "a session beside stalled agents runs", runner.Running(uid))
	}
	s, err := runner.CreateSimulatedSession(ctx, r, fmt.Sprintf("%s-%d", at.Name, n), at)
	if err != nil {
		return err
	}
	return runner.AwaitAllRunning(ctx, r, []*v1alpha1.VDISession{s})
}

// awaitFound edits the sessions of a stalled member, one after another, until the hub reports that
// it ended the stalled stream, and that the member is suspect.
func awaitFound(ctx context.Context, r *runner.Run, d *stalledMember) error {
	began, n, why := time.Now(), 0, ""
	err := stage.Poll(ctx, r.Scaled(2*time.Minute)+stage.Allowance, func(ctx context.Context) (err error) {
		if why, err = stalledReason(ctx, r, d.Name); err == nil {
			return nil
		}
		n++
		return errors.Join(err, editNext(ctx, r, d, n))
	})
	if err != nil {
		return fmt.Errorf("the hub did not detect that %s reads nothing: %w", d.Name, err)
	}
	r.Record("%s is Suspect after %s: %s", d.Name, time.Since(began).Round(100*time.Millisecond), why)
	if !strings.Contains(why, d.foundBy) {
		return fmt.Errorf("%s was sent sessions of template %s, and the hub shows %q, not that it %s", d.Name, d.template, why, d.foundBy)
	}
	return nil
}

// editNext edits a stalled member's next session, so that the hub has an order to send.
func editNext(ctx context.Context, r *runner.Run, d *stalledMember, n int) error {
	s := d.sessions[n%len(d.sessions)]
	before := s.DeepCopy()
	s.Spec.Env = []v1alpha1.EnvVar{{Name: "EDIT", Value: strconv.Itoa(n)}}
	return r.Watch.Hub.Patch(ctx, s.DeepCopy(), client.MergeFrom(before))
}

// stalledReason returns the reason and message with which the hub reports a stalled stream, and an
// error until it does and the member is suspect.
func stalledReason(ctx context.Context, r *runner.Run, member string) (string, error) {
	m := &v1alpha1.MemberCluster{}
	if err := r.Watch.Hub.Get(ctx, watch.Key("/"+member), m); err != nil {
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
