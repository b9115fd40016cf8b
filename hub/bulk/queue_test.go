package bulk

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/client-go/util/workqueue"
	"pgregory.net/rapid"
)

func newQueue(t interface{ Cleanup(func()) }) *Queue[string] {
	q := New("test", workqueue.DefaultTypedControllerRateLimiter[string]())
	t.Cleanup(q.ShutDown)
	return q
}

// processed returns the next n items, which are then processed.
func processed(q *Queue[string], n int) (items []string) {
	for range n {
		item, _ := q.Get()
		q.Done(item)
		items = append(items, item)
	}
	return items
}

func TestOneItemDoesNotWaitBehindMany(t *testing.T) {
	q := newQueue(t)
	for i := range 1000 {
		q.AddBulk(fmt.Sprint(i))
	}
	q.Add("new")
	q.Add("500") // something of its own has changed
	if got := processed(q, 2); !slices.Equal(got, []string{"new", "500"}) {
		t.Errorf("the first are %v", got)
	}
	if q.Len() != 999 {
		t.Errorf("%d are left, want 999: each is there once", q.Len())
	}
}

func TestManyProgressBehindASteadyStreamOfOthers(t *testing.T) {
	q := newQueue(t)
	for i := range 100 {
		q.AddBulk(fmt.Sprint(i))
	}
	turns := 0
	for left := 100; left > 0; turns++ {
		q.Add(fmt.Sprint("new", turns))
		if item := processed(q, 1)[0]; item[0] != 'n' {
			left--
		}
	}
	if turns != 100*bulkShare {
		t.Errorf("%d turns for 100 items, want %d", turns, 100*bulkShare)
	}
}

// An item that is added while it is processed comes again, in the lane of the last call.
func TestItemAddedWhileItIsProcessedIsNotLost(t *testing.T) {
	for inBulk, want := range map[bool][]string{false: {"a", "b"}, true: {"b", "a"}} {
		q := newQueue(t)
		q.Add("a")
		item, _ := q.Get()
		q.AddBulk("a")
		if !inBulk {
			q.Add("a")
		}
		q.Done(item)
		q.Add("b")
		if got := processed(q, 2); !slices.Equal(got, want) {
			t.Errorf("added in bulk: %v: %v, want %v", inBulk, got, want)
		}
	}
}

func TestItemsThatMoveForwardLeaveNothingBehind(t *testing.T) {
	q := newQueue(t)
	for range 100 {
		q.AddBulk("a")
		q.Add("a")
		processed(q, 1)
	}
	if n := len(q.lanes.second) + len(q.lanes.waiting) + len(q.lanes.marked); n > 0 {
		t.Errorf("%d entries are left", n)
	}
}

// Whatever the order of calls, no item is lost or there twice.
func TestEveryItemIsThereOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue(t)
		has, processing := map[string]bool{}, []string{}
		for range rapid.IntRange(0, 60).Draw(t, "calls") {
			item := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "item")
			switch rapid.SampledFrom([]string{"add", "bulk", "get", "done"}).Draw(t, "call") {
			case "add":
				q.Add(item)
				has[item] = true
			case "bulk":
				q.AddBulk(item)
				has[item] = true
			case "get":
				if q.Len() > 0 {
					got, _ := q.Get()
					if !has[got] || slices.Contains(processing, got) {
						t.Fatalf("%s is not to be processed now", got)
					}
					delete(has, got)
					processing = append(processing, got)
				}
			case "done":
				if len(processing) > 0 {
					q.Done(processing[0])
					processing = processing[1:]
				}
			}
		}
		for _, item := range processing {
			q.Done(item)
		}
		if q.Len() != len(has) {
			t.Fatalf("%d items, want %d", q.Len(), len(has))
		}
		for _, item := range processed(q, q.Len()) {
			delete(has, item)
		}
		if len(has) > 0 {
			t.Fatalf("%v are lost", has)
		}
	})
}
