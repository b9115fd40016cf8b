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
type overdue struct {
	mu    sync.Mutex
	looks map[types.NamespacedName]look
}

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
	o.mu.Lock()
	defer o.mu.Unlock()
	key := client.ObjectKeyFromObject(claim)
	if first, ok := o.looks[key]; ok && first.uid == claim.UID && first.version == claim.ResourceVersion {
		return c.Since(first.at)
	}
	if o.looks == nil {
		o.looks = map[types.NamespacedName]look{}
	}
	o.looks[key] = look{uid: claim.UID, version: claim.ResourceVersion, at: c.Now()}
	return 0
}

func (o *overdue) forget(key types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.looks, key)
}
