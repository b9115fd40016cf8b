package session_test

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// world observes all members at once, and records violations of the invariants: a
// session in two members, an epoch assigned twice, an epoch that falls.
type world struct {
	mu      sync.Mutex
	running map[types.UID]map[string]int64
	// assigned is the member that got an epoch of a session, highest the session's last.
	assigned map[string]string
	highest  map[types.UID]int64
	broken   []string
	// cut are members behind a partition: a session of mode Restart may run twice then.
	cut map[string]bool
}

func newWorld() *world {
	return &world{running: map[types.UID]map[string]int64{}, assigned: map[string]string{}, highest: map[types.UID]int64{}, cut: map[string]bool{}}
}

// cutOff records that a member's agent can't be reached, though all runs there.
func (w *world) cutOff(member string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[member] = true
}

func (w *world) runs(member string, a *api.SessionAssignment) {
	w.mu.Lock()
	defer w.mu.Unlock()
	uid, epoch := a.Spec.Session.UID, a.Spec.Epoch
	key := fmt.Sprintf("%s@%d", uid, epoch)
	if other, ok := w.assigned[key]; ok && other != member {
		w.broken = append(w.broken, fmt.Sprintf("epoch %d of %s was assigned to %s and to %s", epoch, a.Name, other, member))
	}
	if epoch < w.highest[uid] {
		w.broken = append(w.broken, fmt.Sprintf("epoch %d of %s after %d", epoch, a.Name, w.highest[uid]))
	}
	for other := range w.running[uid] {
		allowed := w.cut[other] && a.Spec.FailoverMode == api.FailoverRestart
		if other != member && !allowed {
			w.broken = append(w.broken, fmt.Sprintf("%s runs in %s and in %s", a.Name, other, member))
		}
	}
	w.assigned[key], w.highest[uid] = member, max(epoch, w.highest[uid])
	if w.running[uid] == nil {
		w.running[uid] = map[string]int64{}
	}
	w.running[uid][member] = epoch
}

func (w *world) ends(member string, uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running[uid], member)
}

func (w *world) violations() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.broken...)
}
