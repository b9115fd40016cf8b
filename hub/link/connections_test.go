package link

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// openStreams has so many streams open.
func openStreams(count int) (*connections, []*connection) {
	s := newConnections()
	var all []*connection
	for range count {
		c := &connection{}
		c.ended, c.end = context.WithCancelCause(context.Background())
		s.open[c] = true
		all = append(all, c)
	}
	return s, all
}

func countEnded(all []*connection) int {
	ended := 0
	for _, c := range all {
		if c.ended.Err() != nil {
			ended++
		}
	}
	return ended
}

func TestADrainingHubDisconnectsItsAgentsOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, all := openStreams(1000)
		done := make(chan struct{})
		go func() {
			s.endAll(errDraining, time.Second)
			close(done)
		}()
		const steps = 10
		for i := range steps {
			synctest.Wait()
			// So many by now, and one at the beginning.
			if ended, want := countEnded(all), 1+i*len(all)/steps; ended != want {
				t.Errorf("after %d tenths of the time %d of %d streams have ended, want %d", i, ended, len(all), want)
			}
			if s.add(&connection{}) {
				t.Error("a stream was admitted")
			}
			time.Sleep(time.Second / steps)
		}
		<-done
		if ended := countEnded(all); ended != len(all) {
			t.Errorf("%d of %d streams have ended", ended, len(all))
		}
	})
}

func TestADrainingHubOfFewAgentsIsDoneAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, all := openStreams(3)
		begin := time.Now()
		s.endAll(errDraining, time.Hour)
		if took := time.Since(begin); took > 3*drainGap || countEnded(all) != 3 {
			t.Errorf("%d of 3 streams have ended after %s", countEnded(all), took)
		}
	})
}
