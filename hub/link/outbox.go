package link

import (
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Bounds of a batch: whichever is reached first ends it.
const (
	maxBatchItems = 256
	maxBatchBytes = 1 << 20
)

// Outbox is what the hub has still to say to one agent: a set, by session, of
// the newest assignment and the newest withdrawal. It is pure and not safe
// for concurrent use. What it holds is bounded by the sessions it was told
// of, however long nothing can be sent.
type Outbox struct {
	slots map[types.UID]*slot
	// dirty are sessions with something unsent, in the order in which they
	// became so; queued has the same ones.
	dirty  []types.UID
	queued map[types.UID]bool
}

// slot is what is to be said about one session.
//
// Invariant: assign, where present, is of a higher epoch than withdraw, where
// present. Each is kept until its result is in.
type slot struct {
	assign   *v1alpha1.SessionAssignment
	hash     string
	withdraw *Withdrawal
	// assignSent and withdrawSent: in flight, the result is awaited.
	assignSent, withdrawSent bool
}

// NewOutbox is an empty one.
func NewOutbox() *Outbox {
	return &Outbox{slots: map[types.UID]*slot{}, queued: map[types.UID]bool{}}
}

// Put adds an order and reports whether there is something new to send: not
// if it is of an older epoch than what is kept, or equal to it.
func (o *Outbox) Put(order Order) bool {
	uid := order.SessionUID()
	if uid == "" {
		return false
	}
	s := o.slots[uid]
	if s == nil {
		s = &slot{}
	}
	changed := false
	if order.Assign != nil {
		changed = s.putAssign(order.Assign)
	} else {
		changed = s.putWithdraw(order.Withdraw)
	}
	if !changed {
		return false
	}
	o.slots[uid] = s
	if !o.queued[uid] {
		o.queued[uid] = true
		o.dirty = append(o.dirty, uid)
	}
	return true
}

func (s *slot) putAssign(a *v1alpha1.SessionAssignment) bool {
	epoch, hash := a.Spec.Epoch, specHash(a)
	switch {
	case s.withdraw != nil && epoch <= s.withdraw.UpToEpoch,
		s.assign != nil && epoch < s.assign.Spec.Epoch,
		s.assign != nil && epoch == s.assign.Spec.Epoch && hash == s.hash:
		return false
	}
	s.assign, s.hash, s.assignSent = a, hash, false
	return true
}

func (s *slot) putWithdraw(w *Withdrawal) bool {
	if s.withdraw != nil && w.UpToEpoch <= s.withdraw.UpToEpoch {
		if !w.Force || s.withdraw.Force {
			return false
		}
		w.UpToEpoch = s.withdraw.UpToEpoch
	}
	s.withdraw, s.withdrawSent = w, false
	if s.assign != nil && s.assign.Spec.Epoch <= w.UpToEpoch {
		s.assign, s.hash, s.assignSent = nil, "", false
	}
	return true
}

func specHash(a *v1alpha1.SessionAssignment) string {
	if h := a.Annotations[v1alpha1.AnnotationSpecHash]; h != "" {
		return h
	}
	return convert.SpecHash(&a.Spec)
}

// Next renders the next batch of unsent orders and marks them in flight; nil
// if there are none. An order too large for a batch of its own still gets one.
func (o *Outbox) Next() []*fleetv1.Order {
	var batch []*fleetv1.Order
	bytes := 0
	for len(o.dirty) > 0 && len(batch) < maxBatchItems && bytes < maxBatchBytes {
		uid := o.dirty[0]
		for _, order := range o.slots[uid].unsent() {
			batch = append(batch, order)
			bytes += proto.Size(order)
		}
		o.dirty = o.dirty[1:]
		delete(o.queued, uid)
	}
	if len(o.dirty) == 0 {
		o.dirty = nil
	}
	return batch
}

// unsent renders what was not sent yet: a withdrawal before the assignment of
// the higher epoch. A slot that has been settled meanwhile has nothing.
func (s *slot) unsent() []*fleetv1.Order {
	var out []*fleetv1.Order
	if s == nil {
		return nil
	}
	if s.withdraw != nil && !s.withdrawSent {
		s.withdrawSent = true
		out = append(out, withdrawalToWire(s.withdraw))
	}
	if s.assign != nil && !s.assignSent {
		s.assignSent = true
		out = append(out, &fleetv1.Order{Order: &fleetv1.Order_Assign{Assign: convert.AssignmentToWire(s.assign)}})
	}
	return out
}

func withdrawalToWire(w *Withdrawal) *fleetv1.Order {
	return &fleetv1.Order{Order: &fleetv1.Order_Withdraw{Withdraw: &fleetv1.Withdrawal{
		SessionUid: string(w.SessionUID), Namespace: w.Namespace, Name: w.Name, UpToEpoch: w.UpToEpoch, Force: w.Force,
	}}}
}

// Settle forgets the orders that a result answers. A result of an older epoch
// or of another spec than what is kept answers nothing.
func (o *Outbox) Settle(r Result) {
	s := o.slots[r.SessionUID]
	if s == nil {
		return
	}
	if s.assign != nil && s.assignSent && r.answersAssign(s) {
		s.assign, s.hash = nil, ""
	}
	if s.withdraw != nil && r.Code == Stopped && r.Epoch >= s.withdraw.UpToEpoch {
		s.withdraw = nil
	}
	if s.assign == nil && s.withdraw == nil {
		delete(o.slots, r.SessionUID)
	}
}

func (r Result) answersAssign(s *slot) bool {
	switch r.Code {
	case Stored, Refused:
		return r.Epoch == s.assign.Spec.Epoch && r.SpecHash == s.hash
	case Stopped:
		return r.Epoch >= s.assign.Spec.Epoch
	}
	return false
}

// Len counts the sessions about which something is unsent or unanswered.
func (o *Outbox) Len() int { return len(o.slots) }

// Unsent counts the sessions about which something is unsent.
func (o *Outbox) Unsent() int { return len(o.dirty) }
