package protocol

import (
	"fmt"
	"time"

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

// Outbox has the unsent and unanswered orders of one agent: of each session the newest
// assignment and the newest withdrawal. It is pure and not safe for concurrent use. Its
// size is bounded by the sessions, however long nothing can be sent.
type Outbox struct {
	slots map[types.UID]*slot
	// dirty is the queue of sessions with unsent orders; queued has the same ones.
	dirty  []types.UID
	queued map[types.UID]bool
	// refused are results of assignments that cannot be sent.
	refused []Result
}

// slot has the orders of one session.
//
// Invariant: assign is of a higher epoch than withdraw. Each is kept until its result
// arrives.
type slot struct {
	assign   *v1alpha1.SessionAssignment
	hash     string
	withdraw *fleetv1.Withdrawal
	// assignSent and withdrawSent: sent at sentAt, without a result yet.
	assignSent, withdrawSent bool
	sentAt                   time.Time
}

// NewOutbox returns an empty Outbox.
func NewOutbox() *Outbox {
	return &Outbox{slots: map[types.UID]*slot{}, queued: map[types.UID]bool{}}
}

// Put adds an order and reports whether it is new. One of an older epoch than what is
// kept, or equal to it, is dropped.
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
	o.queue(uid)
	return true
}

func (o *Outbox) queue(uid types.UID) {
	if !o.queued[uid] {
		o.queued[uid] = true
		o.dirty = append(o.dirty, uid)
	}
}

func (s *slot) putAssign(a *v1alpha1.SessionAssignment) bool {
	epoch, hash := a.Spec.Epoch, SpecHash(a)
	switch {
	case s.withdraw != nil && epoch <= s.withdraw.UpToEpoch,
		s.assign != nil && epoch < s.assign.Spec.Epoch,
		s.assign != nil && epoch == s.assign.Spec.Epoch && hash == s.hash:
		return false
	}
	s.assign, s.hash, s.assignSent = a, hash, false
	return true
}

func (s *slot) putWithdraw(w *fleetv1.Withdrawal) bool {
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

// SpecHash returns the hash of an assignment's spec: that of its annotation, if set.
func SpecHash(a *v1alpha1.SessionAssignment) string {
	if h := a.Annotations[v1alpha1.AnnotationSpecHash]; h != "" {
		return h
	}
	return convert.SpecHash(&a.Spec)
}

// Next returns the next batch of unsent orders, nil if there are none, and marks them as
// sent now. An assignment too large for any batch is refused: see Refused.
func (o *Outbox) Next(now time.Time) []*fleetv1.Order {
	batch := &orderBatch{now: now}
	for len(o.dirty) > 0 {
		uid := o.dirty[0]
		if s := o.slots[uid]; s != nil && !o.render(uid, s, batch) {
			break
		}
		o.dirty = o.dirty[1:]
		delete(o.queued, uid)
	}
	if len(o.dirty) == 0 {
		o.dirty = nil
	}
	return batch.items
}

// orderBatch is a batch that is being filled.
type orderBatch struct {
	now   time.Time
	items []*fleetv1.Order
	bytes int
}

// add adds an order if it fits, and reports whether it does.
func (b *orderBatch) add(order *fleetv1.Order, size int) bool {
	if len(b.items) >= maxBatchItems || b.bytes+size > maxBatchBytes {
		return false
	}
	b.items, b.bytes = append(b.items, order), b.bytes+size
	return true
}

// itemOverhead bounds the bytes of an item's tag and length within its batch.
const itemOverhead = 16

// render adds a session's unsent orders to a batch: a withdrawal before the assignment
// of the higher epoch. It returns false if one is left for the next batch.
func (o *Outbox) render(uid types.UID, s *slot, batch *orderBatch) bool {
	if s.withdraw != nil && !s.withdrawSent {
		order := &fleetv1.Order{Order: &fleetv1.Order_Withdraw{Withdraw: s.withdraw}}
		if !batch.add(order, proto.Size(order)+itemOverhead) {
			return false
		}
		s.withdrawSent, s.sentAt = true, batch.now
	}
	if s.assign == nil || s.assignSent {
		return true
	}
	order := &fleetv1.Order{Order: &fleetv1.Order_Assign{Assign: convert.AssignmentToWire(s.assign)}}
	size := proto.Size(order) + itemOverhead
	if size > maxBatchBytes {
		o.refuse(uid, s, size)
		return true
	}
	if s.assignSent = batch.add(order, size); s.assignSent {
		s.sentAt = batch.now
	}
	return s.assignSent
}

// Resend marks the orders that were sent before a time and have no result as unsent,
// since a lost result is not detected otherwise: digests are not compared while an order
// is unanswered. The agent drops a duplicate.
func (o *Outbox) Resend(before time.Time) {
	for uid, s := range o.slots {
		if (s.assignSent || s.withdrawSent) && s.sentAt.Before(before) {
			s.assignSent, s.withdrawSent = false, false
			o.queue(uid)
		}
	}
}

// refuse records a refusal of an assignment that cannot be sent.
func (o *Outbox) refuse(uid types.UID, s *slot, size int) {
	a := s.assign
	o.refused = append(o.refused, Result{
		SessionUID: uid, Namespace: a.Namespace, Name: a.Name, Epoch: a.Spec.Epoch, SpecHash: s.hash,
		Code: Refused, Reason: v1alpha1.RefusedInvalid,
		Message: fmt.Sprintf("the assignment has %d KiB, and at most %d can be sent to a member: give its template smaller files", size>>10, maxBatchBytes>>10),
	})
	s.assign, s.hash = nil, ""
	if s.withdraw == nil {
		delete(o.slots, uid)
	}
}

// Refused returns, once, the results of assignments that cannot be sent.
func (o *Outbox) Refused() []Result {
	refused := o.refused
	o.refused = nil
	return refused
}

// Resolve drops the orders that a result answers: not those of a later epoch or of
// another spec.
func (o *Outbox) Resolve(r Result) {
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

// Len returns the number of sessions with an unsent or unanswered order.
func (o *Outbox) Len() int { return len(o.slots) }
