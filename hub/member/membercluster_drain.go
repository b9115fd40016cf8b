package member

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// Drain is an operator's request to drain a member.
type Drain struct {
	// StartTime is when the hub began, according to the member's status.
	StartTime time.Time
	// Deadline after which sessions in use are moved as well. Zero means never.
	Deadline time.Time
	// MaxUnavailable is how many sessions may be moved at once.
	MaxUnavailable int
}

// draining is the state of a member's drain.
type draining struct {
	// began is status.drain.startTime; zero if it is not written yet, or there is no drain.
	began time.Time
	// counts is the progress, without a start time.
	counts v1alpha1.DrainStatus
}

// adopt applies a MemberCluster. A status without the start of a drain does not reset a
// start that was written.
func (d *draining) adopt(mc *v1alpha1.MemberCluster) {
	switch {
	case mc.Spec.Scheduling != v1alpha1.SchedulingDraining:
		*d = draining{}
	case mc.Status.Drain != nil:
		d.began = mc.Status.Drain.StartTime.Time
	}
}

// requestedDrain returns the drain of the member; nil if there is none, or its start is not
// durable yet.
func (m *member) requestedDrain() *Drain {
	if m.drain.began.IsZero() {
		return nil
	}
	limits := m.spec.Drain
	return &Drain{
		StartTime: m.drain.began, Deadline: ptr.Deref(limits.Deadline, metav1.Time{}).Time, MaxUnavailable: int(ptr.Deref(limits.MaxUnavailable, 1)),
	}
}

// ShowDrain records the progress of a member's drain, without a start time, for its status.
func (f *Registry) ShowDrain(uid types.UID, counts v1alpha1.DrainStatus) {
	f.edit(uid, MemberSessions, func(m *member) (changed bool) {
		changed, m.drain.counts = m.drain.counts != counts, counts
		return changed
	})
}

// drainBegan records that the start of a drain is durable: its sessions may move now.
func (f *Registry) drainBegan(mc *v1alpha1.MemberCluster) {
	if mc.Status.Drain == nil {
		return
	}
	f.edit(mc.UID, MemberChanged, func(m *member) bool {
		began := m.drain.began.IsZero() && m.spec.Scheduling == v1alpha1.SchedulingDraining
		if began {
			m.drain.began = mc.Status.Drain.StartTime.Time
		}
		return began
	})
}

// writeDrain writes the progress of the drain into a status.
func writeDrain(status *v1alpha1.MemberClusterStatus, v view, generation int64) {
	if v.spec.Scheduling != v1alpha1.SchedulingDraining {
		status.Drain = nil
		v1alpha1.RemoveCondition(&status.Conditions, v1alpha1.ConditionDrained)
		return
	}
	progress := v.drain.counts
	progress.StartTime = metav1.NewTime(v.now).Rfc3339Copy()
	if status.Drain != nil {
		progress.StartTime = status.Drain.StartTime
	}
	status.Drain = &progress
	v1alpha1.SetCondition(&status.Conditions, generation, drainedCondition(v))
}

// drainedCondition reports whether a draining member is empty, and if not, what it waits
// for.
func drainedCondition(v view) metav1.Condition {
	drained := condition(v1alpha1.ConditionDrained)
	d := v.drain.counts
	stay := d.NoCapacity + d.Homes + d.Failed
	switch {
	case v.sessions == 0:
		return drained(metav1.ConditionTrue, v1alpha1.ReasonDrained, "nothing is placed there any more: the member may be removed, or uncordoned with `kubectl vdi uncordon "+v.name+"`")
	case v.State != health.Ready:
		return drained(metav1.ConditionFalse, v1alpha1.ReasonDraining, fmt.Sprintf("%s still there, and no agent to confirm that any has stopped: see the condition Ready", sessionsAre(v.sessions)))
	case stay >= v.sessions:
		return drained(metav1.ConditionFalse, v1alpha1.ReasonSessionsRemain, sessionsAre(v.sessions)+" still there: "+strings.Join(v.remains(), "; "))
	}
	return drained(metav1.ConditionFalse, v1alpha1.ReasonDraining, sessionsAre(v.sessions)+" still there: "+strings.Join(append(v.moves(), v.remains()...), "; "))
}

func sessionsAre(n int32) string {
	if n == 1 {
		return "1 session is"
	}
	return fmt.Sprintf("%d sessions are", n)
}

// moves describes the sessions that are moved.
func (v view) moves() []string {
	d, limits := v.drain.counts, v.spec.Drain
	until := "until they are idle (spec.drain.deadline ends that)"
	if at := limits.Deadline; at != nil {
		until = "until they are idle, or " + at.UTC().Format(time.RFC3339)
	}
	out := note(nil, d.Moving, "moving")
	out = note(out, d.Waiting, fmt.Sprintf("waiting for the drain budget (%d at once)", ptr.Deref(limits.MaxUnavailable, 1)))
	out = note(out, d.InUse, "in use, "+until)
	if len(out) == 0 {
		out = append(out, "they are being evaluated")
	}
	return out
}

// note adds a number of sessions to a message, unless it is zero.
func note(message []string, n int32, what string) []string {
	if n == 0 {
		return message
	}
	return append(message, fmt.Sprintf("%d %s", n, what))
}

// remains explains why sessions are not moved, with remedies.
func (v view) remains() []string {
	d := v.drain.counts
	out := note(nil, d.NoCapacity, "fit nowhere else: add capacity (`kubectl vdi explain SESSION` shows what is missing)")
	out = note(out, d.Homes, "have their homes there and stay: delete them, or have them recreated with spec.freshHome")
	return note(out, d.Failed, "have failed there: delete them, or raise their spec.attempt, which tries them elsewhere than in "+v.name)
}

// drainPressing reports whether a change of a status is the start or the end of a drain,
// which can't wait.
func drainPressing(before, after *v1alpha1.MemberClusterStatus) bool {
	return (before.Drain == nil) != (after.Drain == nil) ||
		meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionDrained) != meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionDrained)
}

// announceDrain records an event when Drained changed, and permits the sessions to move
// once the start is durable.
func (r *Reconciler) announceDrain(before, after *v1alpha1.MemberCluster) {
	r.Fleet.drainBegan(after)
	was, is := conditionIn(&before.Status, v1alpha1.ConditionDrained), conditionIn(&after.Status, v1alpha1.ConditionDrained)
	switch is.Reason {
	case was.Reason:
	case "":
		r.Recorder.Eventf(after, nil, corev1.EventTypeNormal, v1alpha1.EventDraining, "Drain", "the drain was ended: its remaining sessions stay")
	default:
		severity := corev1.EventTypeNormal
		if is.Reason == v1alpha1.ReasonSessionsRemain {
			severity = corev1.EventTypeWarning
		}
		r.Recorder.Eventf(after, nil, severity, is.Reason, "Drain", "%s", is.Message)
	}
}
