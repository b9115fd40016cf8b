package access

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// pace spaces the writes of one object: sessions of one user that come in a burst
// are written together, and the cache gets the time to show a write. It remembers
// each object for one interval after its last write.
type pace struct{ last sync.Map }

// written is a Role or RoleBinding.
type written struct {
	kind string
	types.NamespacedName
}

// wait returns how long the next write of an object must wait; zero: not at all.
func (p *pace) wait(of written, now time.Time, interval time.Duration) time.Duration {
	at, written := p.last.Load(of)
	if !written {
		return 0
	}
	return max(0, at.(time.Time).Add(interval).Sub(now))
}

// wrote notes a write of an object.
func (p *pace) wrote(of written, now time.Time, interval time.Duration) {
	p.last.Range(func(other, at any) bool {
		if !now.Before(at.(time.Time).Add(interval)) {
			p.last.Delete(other)
		}
		return true
	})
	p.last.Store(of, now)
}
