package retention

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// overdue remembers since when claims have been known to be overdue and unused.
type overdue struct{ looks sync.Map }

// look is the first at a claim that was overdue.
type look struct {
	uid types.UID
	// version of the claim: for one that has changed the time begins again.
	version string
	at      time.Time
}

// since returns for how long a claim has been overdue unchanged, and 0 the first time. The
// time is monotonic: setting the clock does not make it longer.
func (o *overdue) since(claim *corev1.PersistentVolumeClaim, c clock.PassiveClock) time.Duration {
	key, now := client.ObjectKeyFromObject(claim), look{uid: claim.UID, version: claim.ResourceVersion, at: c.Now()}
	known, _ := o.looks.LoadOrStore(key, now)
	if first := known.(look); first.uid == now.uid && first.version == now.version {
		return c.Since(first.at)
	}
	o.looks.Store(key, now)
	return 0
}

func (o *overdue) forget(key types.NamespacedName) { o.looks.Delete(key) }
