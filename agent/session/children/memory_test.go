package children

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestRetriesBackOff(t *testing.T) {
	want := []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}
	for before, wait := range want {
		if got := RetryAfter(before); got != wait {
			t.Errorf("after %d failures: %s, want %s", before, got, wait)
		}
	}
	if got := RetryAfter(1000); got != lastRetry {
		t.Errorf("after 1000 failures: %s, want %s", got, lastRetry)
	}
}

func TestADeniedChildIsNotRetriedEarly(t *testing.T) {
	m, problem := NewMemory().of(namePod), observe.Problem{Reason: api.ReasonApplyFailed, Message: "no"}
	_, first := m.refuse(1, problem, noon)
	if got, wait := m.refusedUntil(1, noon.Add(time.Second)); got == nil || wait != first-time.Second {
		t.Errorf("a second later: %v, %s", got, wait)
	}
	if got, _ := m.refusedUntil(2, noon.Add(time.Second)); got != nil {
		t.Error("a new generation was not tried")
	}
	if got, _ := m.refusedUntil(1, noon.Add(first)); got != nil {
		t.Error("not tried when its time came")
	}
	if _, again := m.refuse(1, problem, noon.Add(time.Second)); again != first-time.Second {
		t.Errorf("met again before its time, the wait moved to %s", again)
	}
	if _, second := m.refuse(1, problem, noon.Add(first)); second != 2*first {
		t.Errorf("the second refusal waits %s, want %s", second, 2*first)
	}
}

func TestRepairsOfTheSameChildBackOff(t *testing.T) {
	m, now := NewMemory().of(Services.Name), noon
	for i, want := range []time.Duration{0, firstRetry, 2 * firstRetry} {
		if got := m.mayRepair(now); got != want {
			t.Errorf("repair %d waits %s, want %s", i, got, want)
		}
		if want > 0 {
			now = now.Add(want)
			if got := m.mayRepair(now); got != 0 {
				t.Errorf("repair %d still waits %s when its time came", i, got)
			}
		}
	}
	if got := m.mayRepair(now.Add(time.Hour)); got != 0 {
		t.Errorf("an hour later a repair waits %s", got)
	}
	if got := m.mayRepair(now.Add(time.Hour + firstRetry)); got != 0 {
		t.Errorf("the fight of an hour ago still counts: %s", got)
	}
}

func TestACreatedChildCountsUntilTheCacheShowsIt(t *testing.T) {
	m, pod := NewMemory().of(namePod), &corev1.Pod{}
	m.created = creation{object: pod, at: noon}
	if got, left := m.createdRecently(noon.Add(time.Second)); got != pod || left != CacheDelay-time.Second {
		t.Errorf("a second later: %v for %s", got, left)
	}
	if got, _ := m.createdRecently(noon.Add(CacheDelay)); got != nil {
		t.Error("it never expires")
	}
}

func TestARetryEndsAllBackoff(t *testing.T) {
	m := NewMemory()
	pod := m.of(namePod)
	pod.refuse(1, observe.Problem{Reason: api.ReasonApplyFailed}, noon)
	pod.mayRepair(noon)
	m.Retry()
	if pod.refused != (refusal{}) || pod.repairs != (repairs{}) {
		t.Errorf("it remembers %+v", pod)
	}
}
