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
	// DefaultRecheckAfter is the time after which a pending session is rechecked without an
	// event; then it is rechecked whenever its wait has doubled.
	DefaultRecheckAfter = 30 * time.Second
	// RecheckAtMost is the longest time between two rechecks.
	RecheckAtMost = 5 * time.Minute
	// maxUnwritten is the number of unwritten answers at which the loop pauses: several
	// for each worker of the controller.
	maxUnwritten = 64
)

// Cache decides on requests, and reserves the capacity in the same step. Package cache
// documents its methods.
type Cache interface {
	Place(req placement.Request, epoch int64) placement.Decision
	Resume(req placement.Request, member v1alpha1.ClusterRef, epoch, run int64) (d placement.Decision, away bool)
	Failover(req placement.Request, session failover.Session, from types.UID, epoch int64) (placement.Decision, failover.Verdict)
	Release(session types.UID)
	Slots(req placement.Request, members []types.UID, most int64) int64
	ResumeSlots(req placement.Request, member types.UID, most int64) int64
}

// Members are the members of the fleet.
type Members interface {
	// Listen calls the listener on every change of a member.
	Listen(listener func(member.Change))
}

// Options are the options of a Scheduler.
type Options struct {
	Cache   Cache
	Members Members
	Clock   clock.PassiveClock
	// RefusalExpired reports whether a member that has refused a session has reported
	// capacity since, so that it may be tried again. It must not block.
	RefusalExpired func(session, member types.UID) bool
	// RecheckAfter is by default DefaultRecheckAfter.
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
	active  queue.Queue[*entry]
	pending pending
	// wave is used only by the loop.
	wave wave
	// controller is the queue of the controller of sessions, nil before Start.
	controller workqueue.TypedRateLimitingInterface[reconcile.Request]
	// unwritten is the number of answers that are not written yet.
	unwritten int
}

// New returns a scheduler that Start runs.
func New(o Options) *Scheduler {
	if o.RecheckAfter == 0 {
		o.RecheckAfter = DefaultRecheckAfter
	}
	s := &Scheduler{
		Options: o, events: newEvents(), work: make(signal, 1),
		sessions: map[types.NamespacedName]*entry{}, pending: newPending(),
	}
	collector.of.Store(s)
	return s
}

// state is the state of a session's request.
type state int

const (
	// waiting until something changes.
	waiting state = iota
	// queued to be decided on.
	queued
	// deciding while the loop decides on it.
	deciding
	// answered, and enqueued for its controller.
	answered
	// writing while the controller writes the answer.
	writing
)

// entry is a waiting session.
type entry struct {
	session types.NamespacedName
	uid     types.UID
	rank    queue.Rank
	state   state
	// request is the last one, nil if the session does not wait for capacity.
	request *Request
	answer  Answer
	// dispatch of the decision, until it is finished.
	dispatch queue.Dispatch
	// class of the pending request, nil if it is not pending or there are too many classes.
	class *class
	// requeued is set if an event has queued it, awaited if its controller waits for the
	// answer.
	requeued, awaited bool
	// shown is set if its status already shows why no member fits it.
	shown bool
	// outdated is set if an event after the answer may help, and its controller does not
	// have the answer yet.
	outdated bool
	// requested is set if its controller has made a request in the current reconcile.
	requested bool
	// reason for which it waits, empty until there is a decision, and since when.
	reason string
	since  time.Time
	// recheck is when it is rechecked by time.
	recheck time.Time
}

// Decide returns the answer to a request. It returns false if there is none yet; the
// session is enqueued once there is, and its controller decides nothing until then.
func (s *Scheduler) Decide(req *Request) (a Answer, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(req.Session, req.Placement.UID, req.Rank)
	e.shown = req.Shown
	if e.request != nil && e.request.same(req) {
		switch now := s.Clock.Now(); {
		case e.state == answered:
			return s.deliver(e), true
		case e.state == waiting && !e.awaited && now.Before(e.recheck):
			a := e.answer
			a.Again = e.recheck.Sub(now)
			return a, true
		case e.state == queued || e.state == deciding || e.state == waiting && e.awaited && now.Before(e.recheck):
			s.active.Touch(e, e.rank)
			e.awaited = true
			return Answer{}, false
		}
	}
	s.withdraw(e)
	if e.class != nil && (e.request == nil || !e.class.isFor(req)) {
		s.pending.remove(e)
	}
	e.request, e.awaited = req, true
	s.queue(e)
	return Answer{}, false
}

// Wait records that a session waits for a reason other than capacity. It returns the time
// after which to reconcile it again at the latest.
func (s *Scheduler) Wait(session types.NamespacedName, uid types.UID, rank queue.Rank, reason string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(session, uid, rank)
	if e.request != nil {
		s.withdraw(e)
		s.pending.remove(e)
		e.request, e.reason = nil, ""
	}
	return s.wait(e, reason)
}

// Done ends a reconcile of a session: placed reports whether it has written a decided
// placement, and err is the error of the write. A session without a request in a
// successful reconcile no longer waits.
func (s *Scheduler) Done(session types.NamespacedName, placed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.sessions[session]
	if e == nil {
		return
	}
	now, requested := s.Clock.Now(), e.requested
	e.requested = false
	switch {
	case e.state == writing:
		if placed && e.class != nil {
			e.class.order.Charge(e.rank, now)
		}
		s.finish(e, placed)
		s.unwritten--
		s.work.set()
		s.forget(e)
	case !requested && (err == nil || e.state == answered):
		s.withdraw(e)
		s.forget(e)
	}
}

// Forget removes a session that is no longer to be placed.
func (s *Scheduler) Forget(session types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.sessions[session]; e != nil {
		s.withdraw(e)
		s.forget(e)
	}
}

// Answered reports whether there is an answer to a session's request that its controller has not read.
func (s *Scheduler) Answered(session types.NamespacedName) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.sessions[session]
	return e != nil && e.state == answered
}

// Enqueue enqueues a session for its controller. It does nothing before the controller
// starts, which reconciles all sessions then.
func (s *Scheduler) Enqueue(session types.NamespacedName) {
	s.mu.Lock()
	q := s.controller
	s.mu.Unlock()
	if q != nil {
		q.Add(reconcile.Request{NamespacedName: session})
	}
}

// Pending returns the sessions with a pending request that of accepts.
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

// entry returns the record of a session that makes a request now. The caller holds the
// lock, as for all methods below.
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
	e.requested, e.rank = true, rank
	if e.class != nil {
		e.class.order.Touch(e, rank)
	}
	return e
}

// queue queues a session to be decided on.
func (s *Scheduler) queue(e *entry) {
	e.state, e.outdated = queued, false
	s.active.Push(e, e.rank)
	s.work.set()
}

// deliver returns an answer to the controller.
func (s *Scheduler) deliver(e *entry) Answer {
	if e.answer.reserved() {
		e.state = writing
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
		e.class.requeue([]*entry{e}, EventCapacity, s.queue)
	}
	return a
}

// withdraw withdraws the request of a session, and releases its reservation.
func (s *Scheduler) withdraw(e *entry) {
	e.class.requeueDone(e, s.queue)
	switch e.state {
	case queued:
		s.active.Remove(e)
		e.class.stopYielding(e)
	case answered, writing:
		s.unwritten--
		s.work.set()
		if e.answer.reserved() {
			s.Cache.Release(e.uid)
		}
	}
	s.finish(e, false)
	e.state = waiting
}

// finish ends the dispatch of a session.
func (s *Scheduler) finish(e *entry, placed bool) {
	s.active.Finish(e.dispatch, placed, s.Clock.Now())
	e.dispatch = queue.Dispatch{}
}

// forget removes a session's record.
func (s *Scheduler) forget(e *entry) {
	e.class.requeueDone(e, s.queue)
	s.pending.remove(e)
	if s.sessions[e.session] == e {
		delete(s.sessions, e.session)
	}
}

// wait records the reason for which a session waits, and returns for how long at most.
func (s *Scheduler) wait(e *entry, reason string) time.Duration {
	now := s.Clock.Now()
	if e.reason != reason {
		e.reason, e.since = reason, now
	}
	wait := max(s.RecheckAfter, min(now.Sub(e.since), RecheckAtMost))
	if reason == v1alpha1.ReasonHubRestored {
		wait = s.RecheckAfter // no event reports its end
	}
	wait -= time.Duration(rand.Int64N(int64(wait)/10 + 1)) //nolint:gosec // jitter
	e.state, e.recheck = waiting, now.Add(wait)
	return wait
}

// signal is set until it is received, however often it is set.
type signal chan struct{}

func (c signal) set() {
	select {
	case c <- struct{}{}:
	default:
	}
}
