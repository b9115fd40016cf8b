package session

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// given remembers the last epoch that this process has given to each session
// and knows to be stored. What it does not know was given by an earlier
// leader, of whose last writes this process' cache may not tell yet.
type given struct {
	mu     sync.Mutex
	epochs map[types.UID]int64
}

func (g *given) add(session types.UID, epoch int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.epochs == nil {
		g.epochs = map[types.UID]int64{}
	}
	g.epochs[session] = max(g.epochs[session], epoch)
}

// epoch is the last one given, 0 if none was.
func (g *given) epoch(session types.UID) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.epochs[session]
}

// forget a session that is gone.
func (g *given) forget(session types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.epochs, session)
}
