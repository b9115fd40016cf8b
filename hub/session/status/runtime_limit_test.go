package status

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// An account of the time used lowers the hub's only if it is complete.
func TestAgentsAccountReplacesTheHubs(t *testing.T) {
	since := metav1.NewTime(sessiontest.Now)
	for _, c := range []struct {
		name   string
		stored bool
		change func(*v1alpha1.VDISession, *v1alpha1.SessionAssignment)
		want   v1alpha1.Duration
	}{
		{"the desktop has stopped", true, func(*v1alpha1.VDISession, *v1alpha1.SessionAssignment) {}, "2m0s"},
		{"the agent has not stored that it is to stop", false, func(*v1alpha1.VDISession, *v1alpha1.SessionAssignment) {}, "1h0m0s"},
		{"its status is of an earlier spec", true, func(_ *v1alpha1.VDISession, a *v1alpha1.SessionAssignment) { a.Status.ObservedGeneration = 0 }, "1h0m0s"},
		{"its run is on", true, func(_ *v1alpha1.VDISession, a *v1alpha1.SessionAssignment) { a.Status.RunningSince = &since }, "1h0m0s"},
		{"it is to run again", true, func(s *v1alpha1.VDISession, _ *v1alpha1.SessionAssignment) { s.Status.Placement.Idle = false }, "1h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, a := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 1)), sessiontest.StoppedReport()
			s.Status.Placement.Idle, s.Status.TimeUsed = true, "1h0m0s"
			c.change(s, a)
			adoptTimeUsed(s, a, c.stored)
			NewWithT(t).Expect(s.Status.TimeUsed).To(Equal(c.want))
		})
	}
}

// A session that is moved is charged what the agent counted.
func TestStoppedRunIsChargedByTheAgentsAccount(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*v1alpha1.SessionAssignment)
		want   v1alpha1.Duration
	}{
		{"it has reported it", func(*v1alpha1.SessionAssignment) {}, "2m0s"},
		{"its run was on at its last report", func(a *v1alpha1.SessionAssignment) { a.Status.RunningSince = &metav1.Time{Time: sessiontest.Now} }, "1h0m0s"},
		{"it never reported it", func(a *v1alpha1.SessionAssignment) { a.Status.TimeUsed = "" }, "1h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, a := sessiontest.With(), sessiontest.StoppedReport()
			StartRun(s, sessiontest.Now.Truncate(time.Second))
			c.change(a)
			EndStoppedRun(s, a, sessiontest.Now.Truncate(time.Second).Add(time.Hour))
			NewWithT(t).Expect(s.Status.TimeUsed).To(Equal(c.want))
			NewWithT(t).Expect(s.Status.RunningSince).To(BeNil())
		})
	}
}

func TestExpiry(t *testing.T) {
	start := metav1.Unix(1_000_000, 0)
	for _, c := range []struct {
		name                     string
		requested, default_, max v1alpha1.Duration
		used                     v1alpha1.Duration
		suspended                bool
		want                     time.Duration // after the run's beginning; 0 if never
	}{
		{name: "no limit"},
		{name: "the template's", default_: "1h", want: time.Hour},
		{name: "the session's", requested: "2h", default_: "1h", want: 2 * time.Hour},
		{name: "never more than the maximum", requested: "9h", max: "3h", want: 3 * time.Hour},
		{name: "the maximum where none is requested", max: "3h", want: 3 * time.Hour},
		{name: "what earlier runs have left", requested: "2h", used: "30m", want: 90 * time.Minute},
		{name: "not while it does not run", requested: "2h", suspended: true},
		{name: "whole seconds, and never short", requested: "1500ms", want: 2 * time.Second},
		{name: "what can't be read is no limit", requested: "soon"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sessiontest.With()
			s.Spec.Timeout, s.Status.TimeUsed = c.requested, c.used
			if !c.suspended {
				s.Status.RunningSince = &start
			}
			template := &v1alpha1.TemplateSpec{Timeout: v1alpha1.TimeLimit{Default: c.default_, Max: c.max}}
			end, limited := expiry(s, template)
			if limited != (c.want != 0) || (limited && end.Sub(start.Time) != c.want) {
				t.Errorf("got %s after the start, %t; want %s", end.Sub(start.Time), limited, c.want)
			}
		})
	}
}

func TestTimeOfARun(t *testing.T) {
	template := &v1alpha1.TemplateSpec{Timeout: v1alpha1.TimeLimit{Default: "1h"}}
	start := sessiontest.Now.Truncate(time.Second)
	for _, c := range []struct {
		after          time.Duration
		over, expiring bool
		next           time.Duration
	}{
		{0, false, false, 55 * time.Minute},
		{55*time.Minute - time.Second, false, false, time.Second},
		{55 * time.Minute, false, true, 5 * time.Minute},
		{time.Hour - time.Second, false, true, time.Second},
		{time.Hour, true, false, 0},
		{2 * time.Hour, true, false, 0},
	} {
		s, now := sessiontest.With(), start.Add(c.after)
		StartRun(s, start)
		if over, soon, next := overdue(s, template, now), expiring(s, template, now), NextDue(s, template, now); over != c.over || soon != c.expiring || next != c.next {
			t.Errorf("after %s: over %t, expiring %t, next in %s; want %t, %t, %s", c.after, over, soon, next, c.over, c.expiring, c.next)
		}
	}
}

func TestExpirationThatIsShown(t *testing.T) {
	template := &v1alpha1.TemplateSpec{}
	s, start := sessiontest.With(), sessiontest.Now.Truncate(time.Second)
	s.Spec.Timeout = "1h"
	shown := func() time.Duration {
		showExpiration(s, template)
		if s.Status.ExpirationTime == nil {
			return 0
		}
		return s.Status.ExpirationTime.Sub(start)
	}
	expect := func(what string, got, want time.Duration) {
		t.Helper()
		if got != want {
			t.Errorf("%s: ends %s after the start, want %s", what, got, want)
		}
	}
	expect("before it runs", shown(), 0)
	StartRun(s, start)
	expect("running", shown(), time.Hour)
	EndRun(s, start.Add(20*time.Minute))
	expect("suspended", shown(), 0)
	StartRun(s, start.Add(2*time.Hour))
	expect("resumed", shown(), 2*time.Hour+40*time.Minute)
	EndRun(s, start.Add(3*time.Hour))
	expect("over: it shows when", shown(), 2*time.Hour+40*time.Minute)
	s.Spec.Timeout = "2h"
	expect("extended, and not resumed yet", shown(), 0)
}

func TestTimeUsedReportedByTheAgent(t *testing.T) {
	for _, c := range []struct {
		name           string
		used, reported v1alpha1.Duration
		running        bool
		reason         string
		want           v1alpha1.Duration
	}{
		{"it has seen more", "10m0s", "12m", false, v1alpha1.ReasonSuspended, "12m0s"},
		{"it has seen less", "10m0s", "9m", false, v1alpha1.ReasonSuspended, "10m0s"},
		{"the first account", "", "9m", false, v1alpha1.ReasonSuspended, "9m0s"},
		{"nothing", "10m0s", "", false, v1alpha1.ReasonSuspended, "10m0s"},
		{"hardly more", "10m0s", "601s", false, v1alpha1.ReasonSuspended, "10m0s"},
		{"hardly more, and that was all", "10m0s", "601s", false, v1alpha1.ReasonTimeExpired, "10m1s"},
		{"while a run is on", "10m0s", "12m", true, v1alpha1.ReasonPodReady, "10m0s"},
	} {
		s := sessiontest.With()
		s.Status.TimeUsed = c.used
		if c.running {
			StartRun(s, sessiontest.Now)
		}
		reported := sessiontest.Reported(v1alpha1.AssignmentActive, 5, "hash")
		reported.Status.TimeUsed = c.reported
		reported.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionPodReady, Reason: c.reason}}
		if adoptTimeUsed(s, reported, false); s.Status.TimeUsed != c.want {
			t.Errorf("%s: %s are used, want %s", c.name, s.Status.TimeUsed, c.want)
		}
	}
}

// In every sequence of operations the time used never shrinks, grows by no more than
// the time that the session ran, and the session is reconciled just when its time
// changes its state.
func TestTimeUnderAnySequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, now := sessiontest.With(), sessiontest.Now
		template := &v1alpha1.TemplateSpec{Timeout: v1alpha1.TimeLimit{Max: "1000h", Unlimited: true}}
		var used, ran time.Duration
		runs := 0
		pass := func(d time.Duration) {
			if s.Status.RunningSince != nil {
				ran += d
			}
			now = now.Add(d)
		}
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) { pass(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "passes"))) },
			"run": func(*rapid.T) {
				if s.Status.RunningSince == nil {
					runs++
				}
				StartRun(s, now)
			},
			"end": func(*rapid.T) { EndRun(s, now) },
			"extend": func(t *rapid.T) {
				s.Spec.Timeout = rapid.SampledFrom([]v1alpha1.Duration{"", "0s", "1500ms", "1h", "30m", "7h", "2000h"}).Draw(t, "timeout")
			},
			"": func(t *rapid.T) {
				is := timeUsed(s, now)
				if is < used {
					t.Fatalf("used shrank from %s to %s", used, is)
				}
				// A run's beginning is kept to the second, its length to the millisecond.
				if most := ran + time.Duration(runs)*(time.Second+time.Millisecond); is > most || is < ran {
					t.Fatalf("%s are used, and it ran %s in %d runs", is, ran, runs)
				}
				used = is
				checkDue(t, s, template, now)
			},
		})
	})
}

// checkDue compares NextDue with the other functions.
func checkDue(t *rapid.T, s *v1alpha1.VDISession, template *v1alpha1.TemplateSpec, now time.Time) {
	state := func(at time.Time) [2]bool {
		return [2]bool{overdue(s, template, at), expiring(s, template, at)}
	}
	due := NextDue(s, template, now)
	if due == 0 {
		if later := now.Add(3000 * time.Hour); state(later) != state(now) {
			t.Fatalf("nothing is due, and it is %v now and %v later", state(now), state(later))
		}
		return
	}
	if before := now.Add(due - 1); state(before) != state(now) {
		t.Fatalf("%s before it is due it is %v, and %v now", due, state(before), state(now))
	}
	if state(now.Add(due)) == state(now) {
		t.Fatalf("it is as it was (%v) when it is due, after %s", state(now), due)
	}
}
