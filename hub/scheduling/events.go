package scheduling

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// rechecksPerBatch is how many pending sessions are rechecked in each batch of events, to
// update their reasons after an event that makes no capacity for them: 100 a second.
const rechecksPerBatch = 10

// Members change in numbers, and each new reason is a write and an event of every pending session: the
// reasons are updated once no member has changed for quiet, or some were outdated for quietAtMost.
const (
	quiet       = 3 * time.Second
	quietAtMost = 30 * time.Second
	// connecting is how long after the start of the loop it is quiet if no member connects: an agent tries again
	// after at most 5 s.
	connecting = 10 * time.Second
)

// events collects changes of the fleet. It holds each member once, with all its changes.
type events struct {
	mu sync.Mutex
	// seen is the number of the last change.
	seen uint64
	changes
	// some is set if there are any.
	some signal
}

// changes are the collected changes.
type changes struct {
	// members that may have more free capacity; true if the member itself has changed.
	members map[types.UID]bool
	// all is set if the reasons of all pending sessions may have changed.
	all bool
	// policies with lower counts for their caps, by name.
	policies map[string]bool
	// templates whose availability, or its reason, has changed in a member.
	templates map[placement.TemplateKey]bool
	// uids are those of members once they are read.
	uids []types.UID
}

func newEvents() *events { return &events{changes: newChanges(), some: make(signal, 1)} }

func newChanges() changes {
	return changes{members: map[types.UID]bool{}, policies: map[string]bool{}, templates: map[placement.TemplateKey]bool{}}
}

// record records a change. It never blocks.
func (n *events) record(c member.Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch c.Kind {
	case member.MemberSessions:
		return
	case member.PolicyCapacity:
		n.policies[c.Policy] = true
	case member.MemberTemplates:
		for _, t := range c.Templates {
			n.templates[t] = true
		}
	case member.MemberChanged, member.MemberStream:
		n.all, n.members[c.UID] = true, true
	case member.MemberConnected, member.MemberCapacity:
		n.all = n.all || c.Kind == member.MemberConnected
		if !n.members[c.UID] {
			n.members[c.UID] = false
		}
	}
	n.seen++
	n.some.set()
}

// read returns and removes the changes, with the number of the last.
func (n *events) read() (changes, uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.changes
	n.changes = newChanges()
	return out, n.seen
}

// last returns the number of the last change.
func (n *events) last() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen
}

func (c *changes) any() bool {
	return c.all || len(c.members) > 0 || len(c.policies) > 0 || len(c.templates) > 0
}

// add adds the members and policies of earlier changes with unevaluated classes.
func (c *changes) add(earlier changes) {
	for m, itself := range earlier.members {
		c.members[m] = c.members[m] || itself
	}
	maps.Copy(c.policies, earlier.policies)
}

// memberUIDs returns the UIDs of members. Nothing is added to the changes after it.
func (c *changes) memberUIDs() []types.UID {
	if c.uids == nil {
		c.uids = slices.Collect(maps.Keys(c.members))
	}
	return c.uids
}

// wave are changes for which every class is evaluated, batch by batch. Later changes are
// added to it; then it restarts with the classes that were evaluated longest ago.
type wave struct {
	changes
	seen uint64
	// open is set if there are unevaluated classes.
	open bool
	// rechecks are the sessions to decide on again although no capacity was made for them.
	rechecks []types.NamespacedName
	// outdated is since when the reasons of pending sessions may be outdated, zero if they are not,
	// and changed when a member has changed last.
	outdated, changed time.Time
}

// evaluateBatch evaluates a batch of classes for the changes, and requeues the sessions that these
// may help. It reports whether there is more to do.
func (s *Scheduler) evaluateBatch(enqueue func(types.NamespacedName)) (more bool) {
	w := &s.wave
	if got, seen := s.events.read(); got.any() {
		if got.all {
			w.outdate(s.Clock.Now())
		}
		if got.all || len(got.templates) > 0 {
			// Sessions of a lost member may move now.
			s.planRechecks(func(r *Request) bool { return got.templates[r.Placement.Template] || got.all && r.Failover != nil })
		}
		if w.open {
			got.add(w.changes)
		}
		w.changes, w.seen, w.open = got, seen, true
		s.mu.Lock()
		s.pending.wave++
		s.mu.Unlock()
	}
	if w.open {
		s.mu.Lock()
		due, more := s.pending.due(s.pending.wave, w.seen)
		s.mu.Unlock()
		for _, l := range due {
			s.requeueFitting(l, enqueue)
		}
		w.open = more
	}
	if now := s.Clock.Now(); w.settled(now) {
		w.outdated = time.Time{}
		s.planRechecks(func(*Request) bool { return true })
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range w.nextRechecks() {
		if e := s.sessions[session]; e != nil && e.class != nil {
			e.class.requeue([]*entry{e}, EventRecheck, s.queue)
		}
	}
	return w.open || len(w.rechecks) > 0 || !w.outdated.IsZero()
}

// outdate records that a member was added, changed, connected, disconnected or removed.
func (w *wave) outdate(now time.Time) {
	w.changed = now
	if w.outdated.IsZero() {
		w.outdated = now
	}
}

// expect records that all members are about to connect.
func (w *wave) expect(now time.Time) {
	w.outdated, w.changed = now, now.Add(connecting-quiet)
}

// postpones reports whether the controller of a pending session gets a new reason only once the members no
// longer change, which rechecks all: very many sessions may be pending when a new leader asks for each, and
// no member is connected yet. Those whose status shows no reason yet get the first one.
func (w *wave) postpones(e *entry) bool {
	return e.shown && e.class != nil && !w.outdated.IsZero()
}

// settled reports whether it is time to update reasons that may be outdated.
func (w *wave) settled(now time.Time) bool {
	return !w.outdated.IsZero() && (now.Sub(w.changed) >= quiet || now.Sub(w.outdated) >= quietAtMost)
}

// requeueFitting requeues as many sessions of a class as the changes of the wave have capacity for.
func (s *Scheduler) requeueFitting(l lookup, enqueue func(types.NamespacedName)) {
	slots, event := slotsFor(s.Cache, l.request, &s.wave.changes, l.size)
	if slots > 0 {
		s.mu.Lock()
		// One more than fit, since the estimate is conservative.
		l.class.requeue(l.class.first(slots+1, s.Clock.Now()), event, s.queue)
		s.mu.Unlock()
	}
	for m := range l.request.Placement.Refused {
		if _, touched := s.wave.members[m]; touched {
			s.requeueRefused(l, m, enqueue)
		}
	}
}

// slotsFor returns how many sessions with a request fit after the changes, up to most,
// and the event for the metric.
func slotsFor(f Cache, r *Request, c *changes, most int64) (slots int64, event string) {
	event = EventCapacity
	var members []types.UID
	if p := r.Placement.Policy; p != nil && p.SessionCaps != (v1alpha1.SessionCaps{}) && c.policies[r.Placement.PolicyName] {
		event = EventCap // capacity may be anywhere
	} else {
		members = c.memberUIDs()
		for _, itself := range c.members {
			if itself {
				event = EventMember
			}
		}
		if len(members) == 0 {
			return 0, event
		}
	}
	in := r.Resume
	if in != nil {
		if _, touched := c.members[in.Member.UID]; touched {
			slots = f.ResumeSlots(in.Placement, in.Member.UID, most)
		}
	}
	if (in == nil || !in.Pinned) && slots < most {
		slots += f.Slots(r.Placement, members, most-slots)
	}
	return slots, event
}

// requeueRefused enqueues sessions that a member has refused, if it has reported capacity
// for them since: their next requests do not contain the refusal.
func (s *Scheduler) requeueRefused(l lookup, m types.UID, enqueue func(types.NamespacedName)) {
	slots := s.Cache.Slots(l.request.withoutRefusal(m), []types.UID{m}, l.size)
	if slots == 0 {
		return
	}
	s.mu.Lock()
	first := l.class.first(slots+1, s.Clock.Now())
	s.mu.Unlock()
	for _, e := range first {
		if s.RefusalExpired != nil && s.RefusalExpired(e.uid, m) {
			Requeued(EventCapacity, 1)
			enqueue(e.session)
		}
	}
}

// planRechecks plans to recheck pending sessions, a few in each batch.
func (s *Scheduler) planRechecks(of func(*Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	planned := sets.New(s.wave.rechecks...)
	for _, e := range s.sessions {
		if e.class != nil && !planned.Has(e.session) && of(e.request) {
			s.wave.rechecks = append(s.wave.rechecks, e.session)
		}
	}
}

// nextRechecks returns and removes the sessions to recheck in this batch.
func (w *wave) nextRechecks() []types.NamespacedName {
	n := min(rechecksPerBatch, len(w.rechecks))
	next := w.rechecks[:n]
	w.rechecks = w.rechecks[n:]
	return next
}

// yields reports whether capacity that has just become free is for earlier sessions of
// the same class: then those are requeued, and the session is decided on after them.
func (s *Scheduler) yields(e *entry, r *Request) bool {
	s.mu.Lock()
	c, size, seen := s.pending.classes[r.class()], int64(0), s.events.last()
	disputed := c != nil && !e.requeued && (c.requeued > 0 || c.seen < seen)
	if disputed {
		size = int64(c.order.Len())
	}
	s.mu.Unlock()
	if !disputed {
		return false
	}
	slots := s.Cache.Slots(r.Placement, nil, size+1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if slots == 0 || s.sessions[e.session] != e || e.state != deciding || e.request != r {
		return false
	}
	s.pending.add(e, false)
	if e.class != c {
		return false
	}
	first := c.first(slots, s.Clock.Now())
	c.seen = seen
	c.requeue(first, EventCapacity, s.queue)
	if c.requeued == 0 || slices.Contains(first, e) {
		return false
	}
	s.finish(e, false)
	e.state = queued
	c.yielding = append(c.yielding, e)
	return true
}
