package retention

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// overdue remembers since when objects were overdue and unused.
type overdue struct{ first sync.Map }

// observation is when a version of an object was first overdue.
type observation struct {
	uid     types.UID
	version string
	at      time.Time
}

// since returns how long an object has been overdue unchanged, by a monotonic clock, and 0 at
// first.
func (o *overdue) since(object client.Object, c clock.PassiveClock) time.Duration {
	key, now := client.ObjectKeyFromObject(object), observation{uid: object.GetUID(), version: object.GetResourceVersion(), at: c.Now()}
	known, _ := o.first.LoadOrStore(key, now)
	if first := known.(observation); first.uid == now.uid && first.version == now.version {
		return c.Since(first.at)
	}
	o.first.Store(key, now)
	return 0
}

func (o *overdue) forget(key types.NamespacedName) { o.first.Delete(key) }
