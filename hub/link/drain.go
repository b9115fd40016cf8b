package link

import (
	"math/rand/v2"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// A leader that is asked to end lets its agents go one by one, so that a whole
// fleet does not knock at the next one's door at once: one every drainGap, all
// within a drainShare of DrainTimeout. Agents add a wait of their own.
const (
	drainGap   = 2 * time.Millisecond
	drainShare = 5
)

// drain ends every stream, so that agents look for the next leader, and gives
// them DrainTimeout to take notice. First nothing new is let in: what an agent
// asks from now on, renewals included, is the next leader's to answer. The
// leader's lock is let go only once this has returned, and who has no certificate
// holds it for no longer than that share.
func (s *Server) drain(agents, unauthenticated *grpc.Server) error {
	var stopped sync.WaitGroup
	for server, limit := range map[*grpc.Server]time.Duration{
		agents: s.options.DrainTimeout, unauthenticated: s.options.DrainTimeout / drainShare,
	} {
		stop := time.AfterFunc(limit, server.Stop)
		defer stop.Stop()
		stopped.Go(server.GracefulStop)
	}
	s.endEach(errDraining, s.options.DrainTimeout/drainShare)
	stopped.Wait()
	return s.wait()
}

// endEach ends every stream, in no order, spread over no longer than that.
func (s *Server) endEach(reason error, over time.Duration) {
	s.mu.Lock()
	var all []*connection
	for c := range s.open {
		all = append(all, c)
	}
	s.open = nil // A stream that comes later is refused.
	s.mu.Unlock()

	// A map's order is not random enough: it has runs.
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	begin := time.Now()
	for i, c := range all {
		due := min(time.Duration(i)*drainGap, over*time.Duration(i)/time.Duration(len(all)))
		time.Sleep(due - time.Since(begin))
		c.end(reason)
	}
}
