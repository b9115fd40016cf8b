package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// at returns the rank of an item that waits since a time after the start.
func at(namespace, user string, priority int32, seconds int) Rank {
	return Rank{Namespace: namespace, User: user, Priority: priority, Since: start.Add(time.Duration(seconds) * time.Second)}
}

// take pops n items at one time, each with success.
func take(t *testing.T, q *Queue[string], n int, now time.Time) []string {
	t.Helper()
	var got []string
	for range n {
		item, turn, ok := q.Pop(now)
		if !ok {
			break
		}
		q.Finish(turn, true, now)
		got = append(got, item)
	}
	return got
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("turns %v, want %v", got, want)
	}
}

func TestHigherPriorityFirstThenAge(t *testing.T) {
	q := &Queue[string]{}
	q.Push("young", at("a", "u", 0, 3))
	q.Push("old", at("a", "u", 0, 1))
	q.Push("high", at("a", "u", 5, 9))
	q.Push("low", at("a", "u", -5, 0))
	expect(t, take(t, q, 9, start.Add(10*time.Second)), "high", "old", "young", "low")
}

func TestNamespacesAndUsersShareTheDecisions(t *testing.T) {
	q := &Queue[string]{}
	for i := range 4 {
		q.Push(fmt.Sprint("burst", i), at("a", "ann", 0, i))
	}
	q.Push("ben", at("a", "ben", 0, 50))
	q.Push("single", at("b", "cleo", 0, 55))
	expect(t, take(t, q, 9, start.Add(time.Minute)), "burst0", "single", "ben", "burst1", "burst2", "burst3")
}

func TestATenantServedAloneYieldsToLaterOnes(t *testing.T) {
	q := &Queue[string]{}
	now := start.Add(time.Second)
	// Capacity for one at a time: both are tried each time, and one is not placed.
	got := map[string]int{}
	for i := range 20 {
		q.Push(fmt.Sprint("a", i), at("a", "u", 0, 0))
		q.Push("b", at("b", "u", 0, 1))
		first, turn, _ := q.Pop(now)
		_, second, _ := q.Pop(now)
		q.Finish(turn, true, now)
		q.Finish(second, false, now)
		got[first[:1]]++
		q.Remove("b")
	}
	if got["a"] != 10 || got["b"] != 10 {
		t.Errorf("served %v, want each ten times though one is always older", got)
	}
}

func TestFailedAttemptsDoNotReduceATenantsShare(t *testing.T) {
	q := &Queue[string]{}
	now := start.Add(time.Second)
	got := map[string]int{}
	for range 20 {
		for i := range 4 {
			q.Push(fmt.Sprint("b", i), at("b", "u", 0, 1))
		}
		q.Push("a", at("a", "u", 0, 0))
		for first := true; q.Len() > 0; first = false {
			item, turn, _ := q.Pop(now)
			q.Finish(turn, first, now)
			if first {
				got[item[:1]]++
			}
		}
	}
	if got["a"] != 10 || got["b"] != 10 {
		t.Errorf("served %v, want each ten times", got)
	}
}

func TestANewTenantIsNotFavored(t *testing.T) {
	for _, of := range []string{"namespace", "user"} {
		t.Run(of, func(t *testing.T) {
			q := &Queue[string]{}
			now := start.Add(time.Second)
			got := map[string]int{}
			for i := range 120 {
				names := []string{"old"}
				if i >= 100 {
					names = append(names, "new")
				}
				for j, name := range names {
					if of == "user" {
						q.Push(name, at("n", name, 0, j))
					} else {
						q.Push(name, at(name, "u", 0, j))
					}
				}
				for first := true; q.Len() > 0; first = false {
					item, turn, _ := q.Pop(now)
					q.Finish(turn, first, now)
					if first {
						got[item]++
					}
				}
			}
			if got["old"] != 110 || got["new"] != 10 {
				t.Errorf("served %v, want the last twenty by turns", got)
			}
		})
	}
}

func TestSharesOfUsersAreKeptWhileOtherNamespacesAreServed(t *testing.T) {
	q := &Queue[string]{}
	now := start.Add(time.Second)
	got := map[string]int{}
	for round := range 20 {
		q.Push("ann", at("n", "ann", 0, 0))
		q.Push("ben", at("n", "ben", 0, 1))
		first, turn, _ := q.Pop(now)
		_, second, _ := q.Pop(now)
		q.Finish(turn, true, now)
		q.Finish(second, false, now)
		got[first]++
		for i := range 400 {
			q.Push(fmt.Sprint("m", i), at(fmt.Sprint("m", round, "/", i%100), "u", 0, 2))
		}
		take(t, q, 400, now)
		q.levels[0].namespaces.sweepAt = 0
		q.levels[0].namespaces.sweep(now)
	}
	if got["ann"] != 10 || got["ben"] != 10 {
		t.Errorf("served %v, want each ten times", got)
	}
}

func TestTouchReordersASessionOfAnotherRank(t *testing.T) {
	q := &Queue[string]{}
	q.Push("a", at("n", "u", 0, 0))
	q.Push("b", at("n", "u", 0, 1))
	q.Touch("b", at("n", "u", 7, 1))
	q.Touch("absent", at("n", "u", 7, 1))
	expect(t, take(t, q, 9, start), "b", "a")
}

func TestLowPriorityIsServedUnderAnyLoad(t *testing.T) {
	for _, c := range []struct {
		name      string
		high, low int32
		after     int // minutes
	}{
		{"one below", 1, 0, 2},
		{"ten below", 10, 0, 11},
		{"as far as can be", 1000, -1000, widestGap + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := &Queue[string]{}
			for i := range 3 {
				q.Push(fmt.Sprint("low", i), at("a", "u", c.low, 0))
			}
			var minutes []int
			for minute := range 80 {
				for i := range 5 {
					q.Push(fmt.Sprint("high", minute, i), at("b", "u", c.high, minute*60))
					got := take(t, q, 1, start.Add(time.Duration(minute)*time.Minute))
					if got[0][:3] == "low" {
						minutes = append(minutes, minute)
					}
				}
			}
			want := []int{c.after, 2 * c.after, 3 * c.after}
			if c.after*3 >= 80 {
				want = want[:2]
			}
			if !slices.Equal(minutes, want) {
				t.Errorf("low ones were served in minutes %v, want %v: one of a namespace at a time", minutes, want)
			}
		})
	}
}

func TestAgedNamespaceHasOneOpenDecisionAtATime(t *testing.T) {
	q := &Queue[string]{}
	for i := range 3 {
		q.Push(fmt.Sprint("low", i), at("a", "u", 0, 0))
		q.Push(fmt.Sprint("high", i), at("b", "u", 1, 3600))
	}
	now := start.Add(time.Hour)
	var got []string
	for range 4 {
		item, _, _ := q.Pop(now)
		got = append(got, item)
	}
	expect(t, got, "low0", "high0", "high1", "high2")
}

func TestOldSharesAreForgotten(t *testing.T) {
	q := &Queue[string]{}
	for i := range 20_000 {
		for _, item := range []string{"a", "b"} {
			q.Push(item, at(fmt.Sprint(item, i), "u", 0, i))
		}
		take(t, q, 2, start.Add(time.Duration(i)*time.Second))
	}
	if n, most := len(q.levels[0].namespaces.shares), 2*2*int(retention/time.Second)+sweepOver; n > most {
		t.Errorf("%d of 40000 namespaces are remembered, want no more than %d", n, most)
	}
}

func TestASingleFailedAttemptIsForgottenOnceTheQueueIsEmpty(t *testing.T) {
	q := &Queue[string]{}
	now := start.Add(time.Minute)
	q.Push("ann", at("a", "ann", 0, 1))
	_, turn, _ := q.Pop(now)
	q.Finish(turn, false, now)
	q.Push("ben", at("a", "ben", 0, 2))
	q.Push("ann", at("a", "ann", 0, 1))
	expect(t, take(t, q, 2, now), "ann", "ben")
}
