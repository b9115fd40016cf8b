package status

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// lines returns the log lines that a write would make.
func lines(before, after *v1alpha1.VDISession, now time.Time) []string {
	var lines []string
	for _, t := range Transitions(before, after, now) {
		line := t.Message + ":"
		for i := 0; i < len(t.Values); i += 2 {
			line += fmt.Sprintf(" %s=%v", t.Values[i], t.Values[i+1])
		}
		lines = append(lines, line)
	}
	return lines
}

func TestEachTransitionIsOneLine(t *testing.T) {
	made := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	after := func(d time.Duration) metav1.Time { return metav1.NewTime(made.Add(d)) }
	condition := func(s *v1alpha1.VDISession, kind string, status metav1.ConditionStatus, reason string) {
		v1alpha1.SetCondition(&s.Status.Conditions, 1, metav1.Condition{Type: kind, Status: status, Reason: reason})
	}
	placed := func(epoch, run int64) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) {
			s.Status.Placement = &v1alpha1.Placement{
				ClusterName: "eu", ClusterUID: "eu-uid", Region: "eu-west", Epoch: epoch, Run: run, PlacementTime: after(2 * time.Second),
			}
			condition(s, v1alpha1.ConditionScheduled, metav1.ConditionTrue, v1alpha1.ReasonPlaced)
		}
	}
	phase := func(p v1alpha1.SessionPhase, reason string) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) {
			s.Status.Phase = p
			condition(s, v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
		}
	}
	session := func(changes ...func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
		s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: "desktops", Name: "s", UID: "u", CreationTimestamp: made}}
		for _, change := range changes {
			change(s)
		}
		return s
	}
	running := func(s *v1alpha1.VDISession) {
		at := after(5 * time.Second)
		s.Status.RunningSince = &at
	}
	creating := phase(v1alpha1.PhaseCreating, v1alpha1.ReasonSending)
	for name, c := range map[string]struct {
		before, after *v1alpha1.VDISession
		want          string
	}{
		"placed": {session(), session(placed(1, 1), creating),
			"Session placed: member=eu epoch=1 run=1 duration=2s region=eu-west policy= reason=Placed|" +
				"Session phase changed: member=eu epoch=1 run=1 from= to=Creating reason=Sending"},
		"running": {session(placed(1, 1), creating), session(placed(1, 1), running, phase(v1alpha1.PhaseRunning, v1alpha1.ReasonReady)),
			"Session phase changed: member=eu epoch=1 run=1 from=Creating to=Running reason=Ready duration=9s"},
		"a write that changes no state": {session(placed(1, 1), creating), session(placed(1, 1), creating, func(s *v1alpha1.VDISession) { s.Status.URL = "u" }), ""},
		"is stopped": {session(placed(1, 1), running), session(placed(1, 1), phase("", v1alpha1.ReasonSuspended), func(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true }),
			"Session stopped: member=eu epoch=1 run=1 reason=Suspended"},
		"runs again": {session(placed(1, 1)), session(placed(1, 2)), "Session restarted: member=eu epoch=1 run=2 from=1 to=2 reason=Placed"},
		"fails over": {session(placed(1, 1)), session(placed(2, 1), func(s *v1alpha1.VDISession) {
			s.Status.Placement.ClusterName = "us"
			s.Status.LastFailover = &v1alpha1.FailoverRecord{From: "eu", FromEpoch: 1, Reason: "MemberUnreachable", LostTime: made, Time: after(2 * time.Second)}
			s.Status.Releasing = []v1alpha1.Release{{ClusterName: "eu", ClusterUID: "eu-uid", Epoch: 1, Superseded: true}}
		}), "Session failed over: member=us epoch=2 run=1 from=eu to=us reason=MemberUnreachable duration=2s"},
		"released, and confirmed": {session(placed(1, 1)), session(phase("", v1alpha1.ReasonRefused)),
			"Placement released: member=eu epoch=1 run=1 reason=Refused"},
		"stop confirmed": {session(func(s *v1alpha1.VDISession) {
			s.Status.Releasing = []v1alpha1.Release{{ClusterName: "eu", ClusterUID: "eu-uid", Epoch: 1}}
		}), session(), "Stop confirmed: member=eu epoch=1"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, strings.Join(lines(c.before, c.after, made.Add(9*time.Second)), "|")); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
