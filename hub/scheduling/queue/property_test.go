package queue

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func drawRank(t *rapid.T, now time.Time) Rank {
	return Rank{
		Priority:  rapid.Int32Range(-2, 2).Draw(t, "priority"),
		Namespace: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "namespace"),
		User:      rapid.SampledFrom([]string{"x", "y"}).Draw(t, "user"),
		Since:     now.Add(-time.Duration(rapid.IntRange(0, 300).Draw(t, "waited")) * time.Second),
	}
}

// Every pushed item is popped once, unless it is pushed again, and nothing else
// is.
func TestNothingIsLostAndNothingComesTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &Queue[int]{}
		now := start
		held := map[int]Rank{}
		var open []Dispatch
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				item, r := rapid.IntRange(0, 20).Draw(t, "item"), drawRank(t, now)
				q.Push(item, r)
				held[item] = r
			},
			"touch": func(t *rapid.T) {
				item, r := rapid.IntRange(0, 20).Draw(t, "item"), drawRank(t, now)
				q.Touch(item, r)
				if _, ok := held[item]; ok {
					held[item] = r
				}
			},
			"remove": func(t *rapid.T) {
				item := rapid.IntRange(0, 20).Draw(t, "item")
				q.Remove(item)
				delete(held, item)
			},
			"pop": func(t *rapid.T) {
				item, turn, ok := q.Pop(now)
				_, has := held[item]
				if ok != (len(held) > 0) || ok && !has {
					t.Fatalf("popped %d %v of %v", item, ok, held)
				}
				delete(held, item)
				if ok {
					open = append(open, turn)
				}
			},
			"finish": func(t *rapid.T) {
				for _, turn := range open {
					q.Finish(turn, rapid.Bool().Draw(t, "served"), now)
				}
				open = nil
			},
			"first": func(t *rapid.T) {
				n := rapid.IntRange(0, 25).Draw(t, "n")
				got := q.First(n, now)
				if !slices.Equal(got, q.First(n, now)) || len(got) != min(n, q.Len()) {
					t.Fatalf("first %d: %v, and then %v", n, got, q.First(n, now))
				}
			},
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "seconds")) * time.Second)
			},
			"": func(t *rapid.T) {
				if q.Len() != len(held) {
					t.Fatalf("%d wait, want %d", q.Len(), len(held))
				}
			},
		})
	})
}

// Among sessions of one priority, the single session of a new or returning tenant waits for
// at most one dispatch of each tenant, or two if the tenant has just had one,
// whatever number the others have queued and whatever the results of their
// dispatches.
func TestBurstsDelayASingleSessionByTheNumberOfTenants(t *testing.T) {
	for _, of := range []string{"namespaces", "users"} {
		t.Run(of, func(t *testing.T) {
			tenant := func(name string, i int) Rank {
				if of == "users" {
					return at("same", name, 0, i)
				}
				return at(name, "same", 0, i)
			}
			rapid.Check(t, func(t *rapid.T) {
				q := &Queue[string]{}
				tenants, workers := rapid.IntRange(1, 6).Draw(t, "tenants"), rapid.IntRange(1, 8).Draw(t, "workers")
				now := start.Add(time.Hour)
				var open []Dispatch
				pushed := 0
				step := func(t *rapid.T) string {
					if len(open) == workers || len(open) > 0 && rapid.Bool().Draw(t, "settles") {
						i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
						q.Finish(open[i], rapid.IntRange(0, 3).Draw(t, "served") > 0, now)
						open = append(open[:i], open[i+1:]...)
					}
					item, turn, ok := q.Pop(now)
					if ok {
						open = append(open, turn)
					}
					return item
				}
				for range rapid.IntRange(0, 60).Draw(t, "before") {
					if rapid.Bool().Draw(t, "pushes") {
						name := fmt.Sprint("t", rapid.IntRange(0, tenants-1).Draw(t, "tenant"))
						for range rapid.SampledFrom([]int{1, 1, 20}).Draw(t, "burst") {
							pushed++
							q.Push(fmt.Sprint(name, "/", pushed), tenant(name, pushed))
						}
					} else {
						step(t)
					}
				}
				mine := rapid.SampledFrom([]string{"single", "t0", "t1"}).Draw(t, "whose")
				for i := range pushed {
					q.Remove(fmt.Sprint(mine, "/", i+1))
				}
				q.Push("single", tenant(mine, 3000))
				for i := range 20 * 3 {
					q.Push(fmt.Sprint("new", i), tenant(fmt.Sprint("new", i%3), 0))
				}
				limit := tenants + 3
				if mine != "single" {
					limit *= 2 // the tenant may just have had a dispatch
				}
				for i := range limit + 1 {
					if step(t) == "single" {
						return
					}
					if i == limit {
						t.Fatalf("%d turns of others with %d tenants and %d workers", i+1, tenants, workers)
					}
				}
			})
		})
	}
}

// If no item has waited long, none of a lower priority is dispatched while one of a
// higher priority is queued.
func TestPriorityIsNeverPassedOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &Queue[int]{}
		ranks := map[int]Rank{}
		for i := range rapid.IntRange(1, 40).Draw(t, "items") {
			r := drawRank(t, start)
			r.Since = start.Add(-time.Duration(rapid.IntRange(0, 59).Draw(t, "seconds")) * time.Second)
			q.Push(i, r)
			ranks[i] = r
		}
		for q.Len() > 0 {
			item, turn, _ := q.Pop(start)
			q.Finish(turn, rapid.Bool().Draw(t, "served"), start)
			mine := ranks[item]
			delete(ranks, item)
			for other, r := range ranks {
				if r.Priority > mine.Priority {
					t.Fatalf("%d of priority %d before %d of %d", item, mine.Priority, other, r.Priority)
				}
			}
		}
	})
}

// Every item is dispatched in the end, however many of a higher priority arrive.
func TestNoTenantStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := &Queue[int]{}
		namespaces := rapid.IntRange(1, 4).Draw(t, "namespaces")
		items := rapid.IntRange(1, 8).Draw(t, "items")
		left := map[int]bool{}
		for i := range items {
			r := at(fmt.Sprint("n", rapid.IntRange(0, namespaces-1).Draw(t, "namespace")), fmt.Sprint("u", i%2), rapid.Int32Range(-1000, 0).Draw(t, "priority"), 0)
			q.Push(-1-i, r)
			left[-1-i] = true
		}
		// The time in which each item is dispatched at the latest.
		minutes := (widestGap + 2) * (items + 1)
		for minute := range minutes {
			now := start.Add(time.Duration(minute) * time.Minute)
			for i := range items + 1 {
				q.Push(minute*100+i, Rank{Priority: 1000, Namespace: fmt.Sprint("h", i), User: "u", Since: now})
				item, turn, _ := q.Pop(now)
				q.Finish(turn, true, now)
				delete(left, item)
			}
		}
		if len(left) > 0 {
			t.Fatalf("%v had no turn in %d minutes", left, minutes)
		}
	})
}

// First returns the items that would be dispatched next, and changes nothing.
func TestFirstReturnsTheOrderAndChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		peeked, other := &Queue[int]{}, &Queue[int]{}
		now := start
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "pops") == 0 {
				a, x, ok := peeked.Pop(now)
				b, y, _ := other.Pop(now)
				if a != b {
					t.Fatalf("%d has its turn after a call of First, else %d", a, b)
				}
				if ok {
					served := rapid.Bool().Draw(t, "served")
					peeked.Finish(x, served, now)
					other.Finish(y, served, now)
				}
				continue
			}
			r := drawRank(t, now)
			peeked.Push(i, r)
			other.Push(i, r)
			peeked.First(rapid.IntRange(0, 10).Draw(t, "first"), now)
			now = now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "seconds")) * time.Second)
		}
		want := peeked.First(peeked.Len(), now)
		var got []int
		for {
			item, _, ok := peeked.Pop(now)
			if !ok {
				break
			}
			got = append(got, item)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("turns %v, predicted %v", got, want)
		}
	})
}
