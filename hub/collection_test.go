package hub

import (
	"context"
	"math"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

func TestANewLeaderCollectsGarbageLessOften(t *testing.T) {
	percent := func() int {
		is := debug.SetGCPercent(50)
		debug.SetGCPercent(is)
		return is
	}
	for _, c := range []struct {
		name         string
		limit        int64
		gogc, during int
	}{
		{"many sessions", 4 << 30, 30, takeoverGOGC},
		{"few sessions", 4 << 30, 100, 100},
		{"a higher GOGC", 4 << 30, 200, 200},
		{"only the limit", 4 << 30, -1, -1},
		{"no limit", math.MaxInt64, 30, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(c.limit))
			defer debug.SetGCPercent(debug.SetGCPercent(c.gogc))
			synctest.Test(t, func(t *testing.T) {
				for end, ends := range map[string]time.Duration{"when it serves all members": takeoverTime, "when it leads no more": time.Second} {
					ctx, stop := context.WithTimeout(t.Context(), ends)
					defer stop()
					go func() { _ = relaxCollection(ctx) }()
					synctest.Wait()
					if got := percent(); got != c.during {
						t.Errorf("GOGC is %d, want %d", got, c.during)
					}
					time.Sleep(ends)
					synctest.Wait()
					if got := percent(); got != c.gogc {
						t.Errorf("GOGC is %d %s, want %d", got, end, c.gogc)
					}
				}
			})
		})
	}
}
