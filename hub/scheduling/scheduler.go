package scheduling

import (
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/queue"
)

const (
	// DefaultRecheckAfter is when a pending session is decided on again though nothing has
	// happened that could help; then after as long again as it has waited by then.
	DefaultRecheckAfter = 30 * time.Second
	// RecheckAtMost is the longest time between two such decisions.
	RecheckAtMost = 5 * time.Minute
	// maxUnwritten is the number of answers that are not written yet at which no other
	// session is decided on: several for each worker of the controller.
	maxUnwritten = 64
)

// Cache decides on requests and reserves the capacity: see package cache.
type Cache interface {
	// Place decides and reserves in one step.
	Place(req placement.Request, epoch int64) placement.Decision
	// Resume decides and reserves in one step for a session that is to run again in the
	// member where it is placed; away: that is to be waited for.
	Resume(req placement.Request, member v1alpha1.ClusterRef, epoch, run int64) (d placement.Decision, away bool)
	// Failover decides and reserves in one step for a session whose member is lost. Where the
	// decision is not Placed, the verdict says when to ask again, and why.
	Failover(req placement.Request, session failover.Session, from types.UID, epoch int64) (placement.Decision, failover.Verdict)
	// Release gives back what was reserved for a session last, unless it was written.
	Release(session types.UID)
	// Slots returns how many more sessions with a request fit in some members, nil: in all,
	// and ResumeSlots how many that are idle in one may run there again, up to most.
	Slots(req placement.Request, members []types.UID, most int64) int64
	ResumeSlots(req placement.Request, member types.UID, most int64) int64
}

// Members of the fleet.
type Members interface {
	// Listen calls the listener on every change of a member.
	Listen(listener func(member.Change))
}

// Options of a Scheduler.
type Options struct {
	Cache   Cache
	Members Members
	Clock   clock.PassiveClock
	// Willing reports whether a member that has refused a session has reported capacity
	// since, so that it may be asked again. It must not block.
	Willing func(session, member types.UID) bool
	// RecheckAfter; zero: DefaultRecheckAfter.
	RecheckAfter time.Duration
}

// Scheduler decides on sessions, one at a time.
type Scheduler struct {
	Options

	events *events
	// work is set when the loop may have something to do.
	work signal

	mu       sync.Mutex
	sessions map[types.NamespacedName]*entry
	// active are the sessions to decide on.
	active  *queue.Queue[*entry]
	pending pending
	// wave is the loop's alone.
	wave wave
	// controller's queue of sessions; nil: the scheduler is not started.
	controller workqueue.TypedRateLimitingInterface[reconcile.Request]
	// unwritten is the number of answers that wait for their write.
	unwritten int
}

// New returns a scheduler that is yet to be started.
func New(o Options) *Scheduler {
	if o.RecheckAfter == 0 {
		o.RecheckAfter = DefaultRecheckAfter
	}
	s := &Scheduler{
		Options: o, events: newEvents(), work: make(signal, 1),
		sessions: map[types.NamespacedName]*entry{}, active: queue.New[*entry](), pending: newPending(),
	}
	collector.of.Store(s)
	return s
}

// state of a session's request.
type state int

const (
	// waiting until something changes.
	waiting state = iota
	// queued to be decided on.
	queued
	// deciding: it is in the loop's hands.
	deciding
	// answered, and the session is enqueued for its controller.
	answered
	// taken: the controller has the answer, and writes it.
	taken
)

// entry is one session that waits.
type entry struct {
	session types.NamespacedName
	uid     types.UID
	rank    queue.Rank
	state   state
	// request as it was asked last; nil: the session waits for something else than capacity.
	request *Request
	answer  Answer
	// turn of the decision, until it is settled.
	turn queue.Turn
	// class of the request among those that are pending; nil: it is not, or it is crowded out.
	class *class
	// called: an event has queued it. wanted: its controller waits for the answer.
	called, wanted bool
	// outdated: an event may help since the answer, which its controller does not have yet.
	outdated bool
	// asked: its controller has asked in the pass that is going on.
	asked bool
	// reason for which it waits, empty until a decision gives one, and since when.
	reason string
	since  time.Time
	// recheck is when it is decided on again by time.
	recheck time.Time
}

// Decide returns the answer to a request. Not ok: there is none yet; the session is enqueued
// once there is, and its controller decides nothing until then.
func (s *Scheduler) Decide(req *Request) (a Answer, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(req.Session, req.Placement.UID, req.Rank)
	if e.request != nil && e.request.same(req) {
		switch now := s.Clock.Now(); {
		case e.state == answered:
			return s.take(e), true
		case e.state == waiting && now.Before(e.recheck):
			a := e.answer
			a.Again = e.recheck.Sub(now)
			return a, true
		case e.state == queued || e.state == deciding:
			s.active.Touch(e, e.rank)
			e.wanted = true
			return Answer{}, false
		}
	}
	s.withdraw(e)
	if e.class != nil && (e.request == nil || e.class.key != req.class()) {
		s.pending.leave(e)
	}
	e.request, e.wanted = req, true
	s.queue(e)
	return Answer{}, false
}

// Wait notes that a session waits for something else than capacity, for a reason. It returns
// when to look at it again at the latest.
func (s *Scheduler) Wait(session types.NamespacedName, uid types.UID, rank queue.Rank, reason string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(session, uid, rank)
	if e.request != nil {
		s.withdraw(e)
		s.pending.leave(e)
		e.request, e.reason = nil, ""
	}
	return s.rest(e, reason)
}

// Done ends a pass of a session's controller: placed is whether it has written a placement
// that was decided on, and err what kept it from writing. A session that has not asked in a
// pass that went well does not wait any more.
func (s *Scheduler) Done(session types.NamespacedName, placed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.sessions[session]
	if e == nil {
		return
	}
	now, asked := s.Clock.Now(), e.asked
	e.asked = false
	switch {
	case e.state == taken:
		if placed && e.class != nil {
			e.class.line.Charge(e.rank, now)
		}
		s.settle(e, placed)
		s.unwritten--
		s.work.set()
		s.forget(e)
	case !asked && (err == nil || e.state == answered):
		s.withdraw(e)
		s.forget(e)
	}
}

// Forget drops a session that is to be placed no more.
func (s *Scheduler) Forget(session types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.sessions[session]; e != nil {
		s.withdraw(e)
		s.forget(e)
	}
}

// Enqueue enqueues a session for its controller. Before that starts it does nothing: at its
// start the controller reconciles all sessions.
func (s *Scheduler) Enqueue(session types.NamespacedName) {
	s.mu.Lock()
	q := s.controller
	s.mu.Unlock()
	if q != nil {
		q.Add(reconcile.Request{NamespacedName: session})
	}
}

// Pending returns the sessions whose pending request is one of those.
func (s *Scheduler) Pending(of func(*Request) bool) []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []types.NamespacedName
	for _, e := range s.sessions {
		if e.class != nil && of(e.request) {
			out = append(out, e.session)
		}
	}
	return out
}

// entry returns the record of a session that asks now. The caller holds the lock, as for
// all below.
func (s *Scheduler) entry(session types.NamespacedName, uid types.UID, rank queue.Rank) *entry {
	e := s.sessions[session]
	if e != nil && e.uid != uid {
		s.withdraw(e)
		s.forget(e)
		e = nil
	}
	if e == nil {
		e = &entry{session: session, uid: uid}
		s.sessions[session] = e
	}
	e.asked, e.rank = true, rank
	e.class.touch(e)
	return e
}

// queue a session to be decided on.
func (s *Scheduler) queue(e *entry) {
	e.state, e.outdated = queued, false
	s.active.Push(e, e.rank)
	s.work.set()
}

// take hands out an answer.
func (s *Scheduler) take(e *entry) Answer {
	if e.answer.reserved() {
		e.state = taken
		return e.answer
	}
	s.unwritten--
	s.work.set()
	if !e.answer.pending(e.request) {
		a := e.answer
		s.forget(e)
		return a
	}
	e.state = waiting
	a := e.answer
	a.Again = max(0, e.recheck.Sub(s.Clock.Now()))
	if e.outdated && e.class != nil {
		e.class.call([]*entry{e}, EventCapacity, s.queue)
	}
	return a
}

// withdraw takes back the request of a session: it is not decided on, and what was reserved
// for it is given back.
func (s *Scheduler) withdraw(e *entry) {
	e.class.uncall(e, s.queue)
	switch e.state {
	case queued:
		s.active.Remove(e)
		e.class.decide(e)
	case answered, taken:
		s.unwritten--
		s.work.set()
		if e.answer.reserved() {
			s.Cache.Release(e.uid)
		}
	}
	s.settle(e, false)
	e.state = waiting
}

// settle ends the turn of a session.
func (s *Scheduler) settle(e *entry, placed bool) {
	s.active.Settle(e.turn, placed, s.Clock.Now())
	e.turn = queue.Turn{}
}

// forget drops a session's record.
func (s *Scheduler) forget(e *entry) {
	e.class.uncall(e, s.queue)
	s.pending.leave(e)
	if s.sessions[e.session] == e {
		delete(s.sessions, e.session)
	}
}

// rest has a session wait for a reason, and returns for how long at the most.
func (s *Scheduler) rest(e *entry, reason string) time.Duration {
	now := s.Clock.Now()
	if e.reason != reason {
		e.reason, e.since = reason, now
	}
	wait := max(s.RecheckAfter, min(now.Sub(e.since), RecheckAtMost))
	if reason == v1alpha1.ReasonHubRestored {
		wait = s.RecheckAfter // it ends by time, which no event reports
	}
	wait -= time.Duration(rand.Int64N(int64(wait)/10 + 1)) //nolint:gosec // it keeps those that wait together from being decided on together
	e.state, e.recheck = waiting, now.Add(wait)
	return wait
}

// signal is there until it is received, however often it is set.
type signal chan struct{}

func (c signal) set() {
	select {
	case c <- struct{}{}:
	default:
	}
}
