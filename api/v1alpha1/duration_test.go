package v1alpha1_test

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	vdi "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestDurationValue(t *testing.T) {
	for _, tc := range []struct {
		text vdi.Duration
		want time.Duration
		ok   bool
	}{
		{"8h", 8 * time.Hour, true},
		{"1h30m", 90 * time.Minute, true},
		{"0.5h", 30 * time.Minute, true},
		{"1500ms", 1500 * time.Millisecond, true},
		{"0s", 0, true},
		{"", 0, false},
		{"8", 0, false},
		{"8 h", 0, false},
		{"-8h", 0, false},
		{"9999999999h", 0, false},
	} {
		if got, ok := tc.text.Value(); got != tc.want || ok != tc.ok {
			t.Errorf("Value of %q is %v, %v; want %v, %v", tc.text, got, ok, tc.want, tc.ok)
		}
	}
}

func TestDurationOf(t *testing.T) {
	for _, tc := range []struct {
		d    time.Duration
		want vdi.Duration
	}{
		{90 * time.Minute, "1h30m0s"},
		{0, "0s"},
		{-time.Second, "0s"},
		{1234567 * time.Microsecond, "1.234s"},
		{999 * time.Microsecond, "0s"},
		{12 * time.Millisecond, "12ms"},
		{math.MaxInt64, "999999h0m0s"},
	} {
		if got := vdi.DurationOf(tc.d); got != tc.want {
			t.Errorf("DurationOf(%v) = %q, want %q", tc.d, got, tc.want)
		}
	}
}

func TestDurationSurvivesWriting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(999_999*time.Hour)).Draw(t, "nanoseconds"))
		got, ok := vdi.DurationOf(d).Value()
		if want := d.Truncate(time.Millisecond); !ok || got != want {
			t.Fatalf("%v written and read is %v, %v; want %v", d, got, ok, want)
		}
	})
}

func TestTimeLimitOfASession(t *testing.T) {
	for _, c := range []struct {
		name      string
		requested vdi.Duration
		limit     vdi.TimeLimit
		want      vdi.Duration
	}{
		{name: "no limit"},
		{name: "the template's default", limit: vdi.TimeLimit{Default: "1h", Max: "3h"}, want: "1h"},
		{name: "what the session requests", requested: "2h", limit: vdi.TimeLimit{Default: "1h", Max: "3h"}, want: "2h"},
		{name: "never more than the maximum", requested: "9h", limit: vdi.TimeLimit{Max: "3h"}, want: "3h"},
		{name: "the maximum where none is requested", limit: vdi.TimeLimit{Max: "3h"}, want: "3h"},
		{name: "none, where the template allows it", requested: "0s", limit: vdi.TimeLimit{Default: "1h", Max: "3h", Unlimited: true}},
		{name: "the default where none is not allowed", requested: "0s", limit: vdi.TimeLimit{Default: "1h", Max: "3h"}, want: "1h"},
		{name: "the maximum where none is not allowed", requested: "0s", limit: vdi.TimeLimit{Max: "3h"}, want: "3h"},
		{name: "the default where the template only allows the request", limit: vdi.TimeLimit{Default: "1h", Unlimited: true}, want: "1h"},
		{name: "the default where the request can't be read", requested: "soon", limit: vdi.TimeLimit{Default: "1h"}, want: "1h"},
		{name: "none where nothing can be read", requested: "soon", limit: vdi.TimeLimit{Default: "later", Max: "never"}},
	} {
		if got := c.limit.For(c.requested); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestWarnBeforeIsAFifthAndAtMostFiveMinutes(t *testing.T) {
	for limit, want := range map[time.Duration]time.Duration{
		10 * time.Second: 2 * time.Second,
		20 * time.Minute: 4 * time.Minute,
		25 * time.Minute: 5 * time.Minute,
		8 * time.Hour:    5 * time.Minute,
	} {
		if got := vdi.WarnBefore(limit); got != want {
			t.Errorf("before the end of %s: %s, want %s", limit, got, want)
		}
	}
}

func TestAnAssignmentIsIdleWhenNothingOfItIsToRun(t *testing.T) {
	running := vdi.SessionAssignment{Spec: vdi.SessionAssignmentSpec{RunState: vdi.ModeRunning, Attempt: 2}}
	for name, c := range map[string]struct {
		change func(*vdi.SessionAssignment)
		want   bool
	}{
		"it runs":                   {func(*vdi.SessionAssignment) {}, false},
		"suspended":                 {func(a *vdi.SessionAssignment) { a.Spec.RunState = vdi.ModeSuspended }, true},
		"failed":                    {func(a *vdi.SessionAssignment) { a.Status.Failure = &vdi.Failure{Attempt: 2} }, true},
		"an earlier attempt failed": {func(a *vdi.SessionAssignment) { a.Status.Failure = &vdi.Failure{Attempt: 1} }, false},
		"timed out":                 {withPod(vdi.ReasonTimeExpired), true},
		"its Pod is not ready yet":  {withPod(vdi.ReasonStarting), false},
	} {
		a := running.DeepCopy()
		c.change(a)
		if got := a.Idle(); got != c.want {
			t.Errorf("%s: idle is %t", name, got)
		}
	}
}

func withPod(reason string) func(*vdi.SessionAssignment) {
	return func(a *vdi.SessionAssignment) {
		a.Status.Conditions = []metav1.Condition{is(vdi.ConditionPodReady, metav1.ConditionFalse, reason)}
	}
}
