package link

import (
	"testing"
	"testing/synctest"
	"time"
)

// serverWith has so many streams open.
func serverWith(count int) (*Server, []*connection) {
	s := &Server{open: map[*connection]bool{}}
	var all []*connection
	for range count {
		c := &connection{ended: make(chan struct{})}
		s.open[c] = true
		all = append(all, c)
	}
	return s, all
}

func countEnded(all []*connection) int {
	ended := 0
	for _, c := range all {
		select {
		case <-c.ended:
			ended++
		default:
		}
	}
	return ended
}

func TestADrainingHubLetsItsAgentsGoOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, all := serverWith(1000)
		done := make(chan struct{})
		go func() {
			s.endEach(errDraining, time.Second)
			close(done)
		}()
		const steps = 10
		for i := range steps {
			synctest.Wait()
			// So many by now, and one at the beginning.
			if ended, want := countEnded(all), 1+i*len(all)/steps; ended != want {
				t.Errorf("after %d tenths of the time %d of %d streams have ended, want %d", i, ended, len(all), want)
			}
			if s.register(&connection{server: s}) {
				t.Error("a stream was let in")
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
		s, all := serverWith(3)
		begin := time.Now()
		s.endEach(errDraining, time.Hour)
		if took := time.Since(begin); took > 3*drainGap || countEnded(all) != 3 {
			t.Errorf("%d of 3 streams have ended after %s", countEnded(all), took)
		}
	})
}
