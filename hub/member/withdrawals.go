package member

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// withdrawnLeast and withdrawnPercent bound how many assignments without a durable cause
	// a member may be ordered to stop: the larger one of that number and that share of its
	// assignments.
	withdrawnLeast   = 5
	withdrawnPercent = 30
	// withdrawnWithin is how long a withdrawal counts.
	withdrawnWithin = time.Hour
)

// withdrawals are those of a member that have no durable cause. Single ones occur if a member
// was restored from a backup, and again has assignments that it confirmed as stopped. Many at
// once mean that the hub has lost state, and would stop desktops in use.
type withdrawals struct {
	// done has the sessions that were withdrawn, with the times, held those that were not.
	done map[types.UID]time.Time
	held map[types.UID]struct{}
	// of is the maximum number of the member's assignments since the first of done.
	of int
}

// MayWithdraw reports whether to order a member to stop its assignment of a session
// although no durable record gives a cause, and counts it. Beyond the bound nothing is
// stopped until no withdrawal is withheld: delete those assignments in the member, or place
// the sessions there.
func (f *Registry) MayWithdraw(member, session types.UID) bool {
	f.mu.Lock()
	m := f.uids[member]
	f.mu.Unlock()
	if m == nil {
		return false
	}
	holds, _ := m.cluster.Cache.Len() // its lock is never acquired under the fleet's
	f.mu.Lock()
	now := f.now()
	may, first := m.withdrawals.decide(session, holds, now)
	f.mu.Unlock()
	if first {
		log.Log.WithName("fleet").Info("Withdrawals without a durable cause are stopped: the hub may have lost state", "member", m.name, "assignments", holds)
	}
	if !may {
		f.notify(m.change(MemberChanged))
	}
	return may
}

// Withdrawn records that no withdrawal of a session without a cause is pending in a member
// any more: it has stopped, or its status names a cause.
func (f *Registry) Withdrawn(uid, session types.UID) {
	f.edit(uid, MemberChanged, func(m *member) bool {
		_, held := m.withdrawals.held[session]
		delete(m.withdrawals.held, session)
		return held
	})
}

// decide decides on one withdrawal; first reports whether it is the first that is withheld.
func (w *withdrawals) decide(session types.UID, holds int, now time.Time) (may, first bool) {
	for other, at := range w.done {
		if now.Sub(at) >= withdrawnWithin {
			delete(w.done, other)
		}
	}
	if _, again := w.done[session]; again {
		return true, false
	}
	if len(w.done) == 0 {
		w.of = 0
	}
	w.of = max(w.of, holds)
	if len(w.held) == 0 && len(w.done) < max(withdrawnLeast, w.of*withdrawnPercent/100) {
		if w.done == nil {
			w.done = map[types.UID]time.Time{}
		}
		w.done[session] = now
		return true, false
	}
	first = len(w.held) == 0
	if w.held == nil {
		w.held = map[types.UID]struct{}{}
	}
	w.held[session] = struct{}{}
	return false, first
}

// withdrawalsMessage describes the withheld withdrawals, with the remedy.
func withdrawalsMessage(held int) string {
	return fmt.Sprintf("%d sessions run there that the hub has no record of stopping or placing elsewhere: it may have lost state, "+
		"so that it stops none of them; compare `kubectl get vdia -A` in the member with `kubectl get vdis -A`, and delete in the member the assignments that are not to run", held)
}
