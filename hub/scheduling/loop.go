package scheduling

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// batchInterval is how long events are collected before pending sessions are requeued.
const batchInterval = 100 * time.Millisecond

// Start starts the loop, which runs until the context ends and enqueues sessions whose
// requests are answered (source.Source).
func (s *Scheduler) Start(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	s.mu.Lock()
	s.controller = q
	s.mu.Unlock()
	s.Members.Listen(s.events.record)
	go s.run(ctx, s.Enqueue)
	return nil
}

func (s *Scheduler) run(ctx context.Context, enqueue func(types.NamespacedName)) {
	always := make(chan struct{})
	close(always)
	s.wave.expect(s.Clock.Now())
	batch := time.After(batchInterval)
	for {
		next := (<-chan struct{})(s.work)
		if s.Step(enqueue) {
			next = always
		}
		select {
		case <-ctx.Done():
			return
		case <-s.events.some:
			if batch == nil {
				batch = time.After(batchInterval)
			}
		case <-batch:
			batch = nil
			if s.evaluateBatch(enqueue) {
				batch = time.After(batchInterval)
			}
		case <-next:
		}
	}
}

// Step decides on the next session. It returns false if there is none, or if too many
// answers are unwritten.
func (s *Scheduler) Step(enqueue func(types.NamespacedName)) bool {
	e, req := s.pop()
	if e == nil {
		return false
	}
	if s.yields(e, req) {
		return true
	}
	a := decide(s.Cache, req)
	if s.conclude(e, req, a) {
		enqueue(e.session)
	}
	return true
}

// pop returns the next session and its request, nil if there is none.
func (s *Scheduler) pop() (*entry, *Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unwritten >= maxUnwritten {
		return nil, nil
	}
	for {
		e, dispatch, ok := s.active.Pop(s.Clock.Now())
		if !ok {
			return nil, nil
		}
		e.state, e.dispatch = deciding, dispatch
		if s.wave.outdated.IsZero() || !s.pending.joins(e) {
			return e, e.request
		}
		// A new leader otherwise decides on each of very many pending sessions before it decides on a new one. The
		// controller of this one gets an answer once the members have connected.
		s.finish(e, false)
		s.wait(e, cmp.Or(e.request.Reason, v1alpha1.ReasonUnschedulable))
	}
}

// decide returns the cache's decision on a request.
func decide(f Cache, r *Request) Answer {
	if lost := r.Failover; lost != nil {
		d, v := f.Failover(r.Placement, lost.Session, lost.From, r.Epoch)
		return Answer{Decision: d, Verdict: v}
	}
	in := r.Resume
	if in == nil {
		return Answer{Decision: f.Place(r.Placement, r.Epoch)}
	}
	d, away := f.Resume(in.Placement, in.Member, in.Epoch, in.Run)
	a := Answer{Decision: d}
	if d.Placed || d.Reason == v1alpha1.ReasonHubRestored || away || in.Pinned {
		return a
	}
	other := f.Place(r.Placement, r.Epoch)
	if other.Placed && other.Cluster.UID == in.Member.UID {
		// Capacity has just become free in its member.
		f.Release(r.Placement.UID)
		a.Decision, _ = f.Resume(in.Placement, in.Member, in.Epoch, in.Run)
		return a
	}
	a.Other = &other
	return a
}

// conclude records the answer to a request. It reports whether to enqueue the session:
// its controller awaits the answer, or the answer differs from the last.
func (s *Scheduler) conclude(e *entry, r *Request, a Answer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sessions[e.session] != e || e.state != deciding || e.request != r {
		if a.reserved() {
			s.Cache.Release(r.Placement.UID)
		}
		return false
	}
	notify, requeued := e.awaited, e.requeued
	e.awaited = false
	capped := a.capped()
	e.passOn(capped, s.Clock.Now(), s.queue)
	e.class.requeueDone(e, s.queue)
	if !a.reserved() {
		s.finish(e, false)
	}
	if a.pending(r) {
		s.pending.decided(e, capped)
		if a.ClassLimit = ""; e.class == nil {
			a.ClassLimit = s.pending.limit(e)
		}
		notify = notify || !a.sameText(&e.answer)
		if notify && !requeued && s.wave.postpones(e) {
			e.awaited, notify = true, false
		}
		s.wait(e, cmp.Or(r.Reason, a.Reason))
	}
	e.answer = a
	if !notify && a.pending(r) {
		return false
	}
	e.state = answered
	s.unwritten++
	return true
}
