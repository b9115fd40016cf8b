package bulk

import (
	"slices"
	"testing"

	"k8s.io/client-go/util/workqueue"
)

func TestUrgentItemsAlternateWithTheOthers(t *testing.T) {
	urgent := func(i int) bool { return i < 100 }
	for _, c := range []struct {
		name        string
		added, want []int
	}{
		{"one behind many", []int{100, 101, 102, 103, 1}, []int{1, 100, 101, 102, 103}},
		{"many before one", []int{1, 2, 3, 4, 100}, []int{1, 100, 2, 3, 4}},
		{"many of both", []int{100, 101, 102, 1, 2, 3}, []int{1, 100, 2, 101, 3, 102}},
		{"each once", []int{100, 101, 100, 1, 1}, []int{1, 100, 101}},
	} {
		t.Run(c.name, func(t *testing.T) {
			queue := NewQueue("", workqueue.DefaultTypedControllerRateLimiter[int](), urgent)
			t.Cleanup(queue.ShutDown)
			for _, i := range c.added {
				queue.Add(i)
			}
			var got []int
			for queue.Len() > 0 {
				item, _ := queue.Get()
				queue.Done(item)
				got = append(got, item)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the items are served as %v, want %v", got, c.want)
			}
		})
	}
}
