package bulk

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestItemsArePassedOnAtALimitedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed := NewFeed[int]()
		var mutex sync.Mutex // synctest.Wait orders what was before it, not what follows
		passes := map[int]int{}
		passed := func() map[int]int {
			synctest.Wait()
			mutex.Lock()
			defer mutex.Unlock()
			return maps.Clone(passes)
		}
		const items = AtOnce + 3*PerSecond
		for i := range items {
			feed.Add(i)
			feed.Add(i)
		}
		ctx, stop := context.WithCancel(t.Context())
		go feed.Run(ctx, func(i int, wait func() bool) {
			if !wait() {
				return
			}
			mutex.Lock()
			defer mutex.Unlock()
			passes[i]++
		})
		for _, want := range []int{AtOnce, AtOnce + PerSecond, AtOnce + 2*PerSecond, items, items} {
			if got := len(passed()); got != want {
				t.Errorf("%d items have passed, want %d", got, want)
			}
			time.Sleep(time.Second)
		}
		feed.Add(7)
		for i, times := range passed() {
			if want := map[bool]int{false: 1, true: 2}[i == 7]; times != want {
				t.Errorf("item %d has passed %d times, want %d: once while it waits, and again", i, times, want)
			}
		}
		stop()
		synctest.Wait()
		feed.Add(8)
		if passed()[8] > 1 {
			t.Error("an item passes after the end")
		}
	})
}
