package bulk

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestItemsArePassedOnAtALimitedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		feed, passed := NewFeed[int](), map[int]int{}
		const items = AtOnce + 3*PerSecond
		for i := range items {
			feed.Add(i)
			feed.Add(i)
		}
		ctx, stop := context.WithCancel(t.Context())
		go feed.Run(ctx, func(i int) { passed[i]++ })
		for _, want := range []int{AtOnce, AtOnce + PerSecond, AtOnce + 2*PerSecond, items, items} {
			synctest.Wait()
			if len(passed) != want {
				t.Errorf("%d items have passed, want %d", len(passed), want)
			}
			time.Sleep(time.Second)
		}
		feed.Add(7)
		synctest.Wait()
		for i, times := range passed {
			if want := map[bool]int{false: 1, true: 2}[i == 7]; times != want {
				t.Errorf("item %d has passed %d times, want %d: once while it waits, and again", i, times, want)
			}
		}
		stop()
		synctest.Wait()
		feed.Add(8)
		synctest.Wait()
		if passed[8] > 1 {
			t.Error("an item passes after the end")
		}
	})
}
