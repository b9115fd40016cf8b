package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// told are the lines of the log that a write would make.
func told(before, after *v1alpha1.VDISession, now time.Time) []string {
	var lines []string
	for _, t := range transitions(before, after, now) {
		line := t.message + ":"
		for i := 0; i < len(t.values); i += 2 {
			line += fmt.Sprintf(" %s=%v", t.values[i], t.values[i+1])
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
			"Session was placed: member=eu epoch=1 run=1 duration=2s region=eu-west policy= reason=Placed|" +
				"Session changed its phase: member=eu epoch=1 run=1 from= to=Creating reason=Sending"},
		"running": {session(placed(1, 1), creating), session(placed(1, 1), running, phase(v1alpha1.PhaseRunning, v1alpha1.ReasonReady)),
			"Session changed its phase: member=eu epoch=1 run=1 from=Creating to=Running reason=Ready duration=9s"},
		"a write that changes no state": {session(placed(1, 1), creating), session(placed(1, 1), creating, func(s *v1alpha1.VDISession) { s.Status.URL = "u" }), ""},
		"rests": {session(placed(1, 1), running), session(placed(1, 1), phase("", v1alpha1.ReasonSuspended), func(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true }),
			"Session is to rest: member=eu epoch=1 run=1 reason=Suspended"},
		"runs again": {session(placed(1, 1)), session(placed(1, 2)), "Session is to run again: member=eu epoch=1 run=2 from=1 to=2 reason=Placed"},
		"fails over": {session(placed(1, 1)), session(placed(2, 1), func(s *v1alpha1.VDISession) {
			s.Status.Placement.ClusterName = "us"
			s.Status.LastFailover = &v1alpha1.FailoverRecord{From: "eu", FromEpoch: 1, Reason: "MemberUnreachable", LostTime: made, Time: after(2 * time.Second)}
			s.Status.Releasing = []v1alpha1.Release{{ClusterName: "eu", ClusterUID: "eu-uid", Epoch: 1, Superseded: true}}
		}), "Session failed over: member=us epoch=2 run=1 from=eu to=us reason=MemberUnreachable duration=2s"},
		"given up, and confirmed": {session(placed(1, 1)), session(phase("", v1alpha1.ReasonRefused)),
			"Session was given up where it was: member=eu epoch=1 run=1 reason=Refused"},
		"stop confirmed": {session(func(s *v1alpha1.VDISession) {
			s.Status.Releasing = []v1alpha1.Release{{ClusterName: "eu", ClusterUID: "eu-uid", Epoch: 1}}
		}), session(), "Session's stop was confirmed: member=eu epoch=1"},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(c.want, strings.Join(told(c.before, c.after, made.Add(9*time.Second)), "|")); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestTheRootOfAWalkIsWrittenOnce(t *testing.T) {
	at := metav1.Now()
	session := func(run int64, idle, ran bool, phase v1alpha1.SessionPhase) *v1alpha1.VDISession {
		s := &v1alpha1.VDISession{}
		s.Status.Phase = phase
		if run > 0 {
			s.Status.Placement = &v1alpha1.Placement{Epoch: 1, Run: run, Idle: idle}
		}
		if ran {
			s.Status.RunningSince = &at
		}
		return s
	}
	for name, c := range map[string]struct {
		walk []*v1alpha1.VDISession
		want string
	}{
		"runs, is suspended, deleted": {[]*v1alpha1.VDISession{
			session(1, false, false, "Creating"), session(1, false, false, "Creating"), session(1, false, true, "Running"), session(1, false, true, "Running"),
			session(1, true, false, "Pending"), session(1, true, false, "Terminating"), session(0, false, false, "Terminating"),
		}, "ran"},
		"never runs": {[]*v1alpha1.VDISession{
			session(1, false, false, "Creating"), session(1, true, false, "Failed"), session(1, true, false, "Terminating"),
		}, "missed"},
		"runs in its second run alone": {[]*v1alpha1.VDISession{
			session(1, false, false, "Creating"), session(2, false, false, "Creating"), session(2, false, true, "Running"), session(2, false, true, "Terminating"),
		}, "missed ran"},
		"deleted before it ran": {[]*v1alpha1.VDISession{
			session(1, false, false, "Creating"), session(1, false, false, "Terminating"), session(0, false, false, "Terminating"),
		}, "missed"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for i := 1; i < len(c.walk); i++ {
				if startsRun(c.walk[i-1], c.walk[i]) {
					got = append(got, "ran")
				}
				if missesRun(c.walk[i-1], c.walk[i]) {
					got = append(got, "missed")
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
		})
	}
}
