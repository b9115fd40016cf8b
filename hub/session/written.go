package session

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// staleWait is when to look again at a session that the cache shows as it was
// before this process' own last write. The event that brings the cache up to
// date comes earlier, as a rule.
const staleWait = time.Second

// written remembers the version that this process' last write made of each
// session, until the cache shows it: what is decided from an earlier view is
// bound to fail at the lock.
type written struct {
	mu       sync.Mutex
	versions map[types.UID]string
}

// note takes a session as a write returned it.
func (w *written) note(s *v1alpha1.VDISession) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.versions == nil {
		w.versions = map[types.UID]string{}
	}
	if !olderThan(s.ResourceVersion, w.versions[s.UID]) {
		w.versions[s.UID] = s.ResourceVersion
	}
}

// stale is whether a session from the cache is older than what was written.
func (w *written) stale(s *v1alpha1.VDISession) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, ok := w.versions[s.UID]
	if !ok {
		return false
	}
	if olderThan(s.ResourceVersion, last) {
		return true
	}
	delete(w.versions, s.UID)
	return false
}

// forget a session that is gone.
func (w *written) forget(session types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.versions, session)
}

// olderThan compares resource versions; what cannot be compared is not older.
func olderThan(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}
