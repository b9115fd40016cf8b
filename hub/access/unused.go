package access

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// unused remembers since when Roles are unused: their users have no sessions.
type unused struct{ since sync.Map }

// wait returns how long a Role must still be kept. The first call for an unused Role
// begins its retention.
func (u *unused) wait(role types.NamespacedName, now time.Time, retention time.Duration) time.Duration {
	since, _ := u.since.LoadOrStore(role, now)
	return max(0, since.(time.Time).Add(retention).Sub(now))
}

// forget drops a Role that is used or removed.
func (u *unused) forget(role types.NamespacedName) { u.since.Delete(role) }
