package member

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// recovery is the state of a hub that was restored from a backup: it has lost its
// placements since the backup, but the members have them. It waits for their reports before
// it reserves their capacity.
type recovery struct {
	// until is when the hub stops waiting for members; zero if this hub was not restored.
	until time.Time
	// over is set once the hub no longer waits for members.
	over bool
}

// Restored records that the hub was restored from a backup: an agent has seen state that is
// newer than the hub's. Nothing is placed, and nothing resumed, until every member that
// ever connected has reported to this leader, or for Timings.Recovery. Only the first call
// has an effect: an agent that reports it again, true or not, delays nothing.
func (f *Restores) Restored() {
	f.mu.Lock()
	first := f.recovery.until.IsZero()
	if first {
		f.recovery.until = f.now().Add(f.timings.Recovery)
	}
	f.mu.Unlock()
	if first {
		log.Log.WithName("fleet").Info("The hub was restored from a backup: nothing is placed until every member has reported",
			"atMost", f.timings.Recovery.String())
	}
}

// awaitsReports reports whether nothing may be placed yet, and returns the decision for
// that. The caller holds the lock.
//
// The message stays the same: it is written into every session that waits.
func (f *state) awaitsReports(now time.Time) (placement.Decision, bool) {
	if f.recovery.until.IsZero() || f.recovery.over {
		return placement.Decision{}, false
	}
	awaited := 0
	for _, m := range f.members {
		awaited += count(m.awaited())
	}
	if awaited == 0 || !now.Before(f.recovery.until) {
		f.recovery.over = true
		log.Log.WithName("fleet").Info("The hub places sessions again after its restore", "membersNotReported", awaited)
		return placement.Decision{}, false
	}
	return placement.Decision{Reason: v1alpha1.ReasonHubRestored, Message: fmt.Sprintf(
		"the hub was restored from a backup: sessions are placed once every member has reported its sessions, or after %s; `kubectl get memberclusters` shows which are not connected", f.timings.Recovery)}, true
}

// Recovering reports whether the hub was restored from a backup, and waits for its members'
// reports.
func (f *Restores) Recovering() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, wait := f.awaitsReports(f.now())
	return wait
}

// Claims returns the member, if any, that has a session under a later epoch with a proof that
// it was placed there: a restored hub has lost that epoch.
func (f *Restores) Claims(assignment types.NamespacedName, session types.UID, epoch int64) (member string, yes bool) {
	f.mu.Lock()
	members := slices.Collect(maps.Values(f.members))
	f.mu.Unlock()
	for _, m := range members { // without the lock: caches call the fleet under their own
		item := m.cluster.Cache.Get(assignment)
		if item != nil && item.Spec.Session.UID == session && item.Spec.Epoch > epoch && item.Status.State == v1alpha1.AssignmentActive &&
			f.proven != nil && f.proven(m.uid, session, item.Spec.Epoch, item.Spec.Proof) {
			return m.name, true
		}
	}
	return "", false
}

// Unreported returns the names of the members that have not reported to this leader and may
// run something: neither revoked nor declared fenced.
func (f *Restores) Unreported() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	now := f.now()
	for _, m := range f.members {
		if m.awaited() && !m.fence.inEffect(now) {
			names = append(names, m.name)
		}
	}
	slices.Sort(names)
	return names
}

// awaited reports whether the member has not reported to this hub yet. One that never
// connected has nothing to report, and one that is revoked can't.
func (m *member) awaited() bool {
	return m.heartbeats.EverConnected() && !m.revoked && (m.reportedAt.IsZero() || !m.cluster.Synced.Load())
}
