package access

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// unused remembers since when Roles are unused: their users have no sessions.
type unused struct {
	mu    sync.Mutex
	since map[types.NamespacedName]time.Time
}

// wait returns how long a Role must still be kept. The first call for an unused Role
// begins its retention.
func (u *unused) wait(role types.NamespacedName, now time.Time, retention time.Duration) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	since, known := u.since[role]
	if !known {
		if u.since == nil {
			u.since = map[types.NamespacedName]time.Time{}
		}
		u.since[role], since = now, now
	}
	return max(0, since.Add(retention).Sub(now))
}

// forget drops a Role that is used or removed.
func (u *unused) forget(role types.NamespacedName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.since, role)
}
