package assignment

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// pending holds the orders that are not carried out yet, and the lowest epoch of each
// session that may still be stored. It is pure, and not safe for concurrent use.
type pending struct {
	slots map[types.UID]slot
	// minEpochs has the lowest epoch of each session that may still be stored.
	minEpochs *lru.Cache
}

func newPending() *pending {
	return &pending{slots: map[types.UID]slot{}, minEpochs: lru.New(maxMinEpochs)}
}

// slot holds the orders of one session: at most a withdrawal, and an assignment of a
// higher epoch after it.
type slot struct {
	assign *v1alpha1.SessionAssignment
	// received is when assign was.
	received time.Time
	withdraw *withdrawal
}

type withdrawal struct {
	*fleetv1.Withdrawal
	// acknowledged is set once Stored was sent, or if the hub did not order it.
	acknowledged bool
}

// assign adds an assignment, unless its epoch is lower than the returned minEpoch. An epoch
// whose stop is not confirmed yet is neither accepted nor refused: Stopped answers it, and
// Refused would mean that nothing of it runs.
func (p *pending) assign(a *v1alpha1.SessionAssignment, now time.Time) (accepted bool, minEpoch int64) {
	uid := a.Spec.Session.UID
	s := p.slots[uid]
	if s.withdraw != nil && a.Spec.Epoch <= s.withdraw.GetUpToEpoch() {
		return false, 0
	}
	minEpoch = p.minEpoch(uid)
	if s.assign != nil {
		minEpoch = max(minEpoch, s.assign.Spec.Epoch)
	}
	if a.Spec.Epoch < minEpoch {
		return false, minEpoch
	}
	p.update(uid, func(s *slot) { s.assign, s.received = a, now })
	p.raise(uid, a.Spec.Epoch)
	return true, 0
}

// withdraw adds a withdrawal, unless there is one up to a higher epoch, and drops the orders
// that it withdraws. A repetition without force keeps the force of the first.
func (p *pending) withdraw(w *withdrawal) {
	uid := types.UID(w.GetSessionUid())
	p.raise(uid, w.GetUpToEpoch()+1)
	p.update(uid, func(s *slot) {
		if s.withdraw != nil && s.withdraw.GetForce() && s.withdraw.GetUpToEpoch() == w.GetUpToEpoch() {
			w.Force = true
		}
		if s.withdraw == nil || w.GetUpToEpoch() >= s.withdraw.GetUpToEpoch() {
			s.withdraw = w
		}
		if s.assign != nil && s.assign.Spec.Epoch <= w.GetUpToEpoch() {
			s.assign = nil
		}
	})
}

// deleted adds a withdrawal of an assignment that is gone from the API server, so that its
// stop is confirmed, unless the hub has withdrawn it.
func (p *pending) deleted(a *v1alpha1.SessionAssignment) {
	uid := a.Spec.Session.UID
	p.raise(uid, a.Spec.Epoch+1)
	if w := p.slots[uid].withdraw; w == nil || w.GetUpToEpoch() < a.Spec.Epoch {
		p.withdraw(&withdrawal{acknowledged: true, Withdrawal: &fleetv1.Withdrawal{
			SessionUid: string(uid), Namespace: a.Namespace, Name: a.Name, UpToEpoch: a.Spec.Epoch,
		}})
	}
}

// update changes a session's slot, and removes an empty one.
func (p *pending) update(uid types.UID, change func(*slot)) {
	s := p.slots[uid]
	change(&s)
	if s.assign == nil && s.withdraw == nil {
		delete(p.slots, uid)
	} else {
		p.slots[uid] = s
	}
}

// maxMinEpochs bounds the memory for sessions that are gone. A stale order can only come
// from the open stream, so the latest are enough.
const maxMinEpochs = 100_000

// minEpoch returns the lowest epoch of a session that may still be stored.
func (p *pending) minEpoch(uid types.UID) int64 {
	lowest, _ := p.minEpochs.Get(uid)
	epoch, _ := lowest.(int64)
	return epoch
}

// raise excludes the epochs below lowest.
func (p *pending) raise(uid types.UID, lowest int64) {
	p.minEpochs.Add(uid, max(p.minEpoch(uid), lowest))
}
