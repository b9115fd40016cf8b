package fleet

import (
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// recovery is of a hub that was restored from a backup: what it placed since then
// it does not know, and the members do. It waits for them before it gives away
// their room.
type recovery struct {
	// until when members are awaited at the most; zero: this hub was not restored.
	until time.Time
	// over: they are no longer awaited.
	over bool
}

// Restored says that the hub was restored from a backup: an agent has seen what
// this hub knows nothing of. Nothing is placed, and nothing resumed, until every
// member that ever connected has reported to this leader, or for Timings.Recovery.
// It is so once: an agent that has such a thing to say again, true or not, holds
// up nobody.
func (f *Fleet) Restored() {
	f.mu.Lock()
	first := f.recovery.until.IsZero()
	if first {
		f.recovery.until = f.look().Add(f.timings.Recovery)
	}
	f.mu.Unlock()
	if first {
		log.Log.WithName("fleet").Info("The hub was restored from a backup: nothing is placed until every member has reported",
			"atMost", f.timings.Recovery.String())
	}
}

// awaitsReports is whether nothing may be placed yet, and the decision that says
// so. The caller holds the lock.
//
// The words are the same for as long as it lasts: they are written into every
// session that waits.
func (f *Fleet) awaitsReports(now time.Time) (placement.Decision, bool) {
	if f.recovery.until.IsZero() || f.recovery.over {
		return placement.Decision{}, false
	}
	awaited := 0
	for _, m := range f.members {
		awaited += count(m.awaited())
	}
	if awaited == 0 || !now.Before(f.recovery.until) {
		f.recovery.over = true
		log.Log.WithName("fleet").Info("The hub places sessions again after its restore", "membersNotHeardOf", awaited)
		return placement.Decision{}, false
	}
	return placement.Decision{Reason: v1alpha1.ReasonHubRestored, Message: fmt.Sprintf(
		"the hub was restored from a backup: sessions are placed once every member has told what it runs, or after %s; kubectl get memberclusters says who is away", f.timings.Recovery)}, true
}

// awaited is whether the member has yet to report to this hub. One that never
// connected has nothing to tell, and one that is revoked can't.
func (m *member) awaited() bool {
	return m.ever && !m.revoked && (!m.reported || !m.synced)
}
