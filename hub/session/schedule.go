package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/queue"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
)

// Scheduler decides on sessions that request capacity.
type Scheduler interface {
	// Decide returns the answer to a request. If ok is false, the session is enqueued once
	// there is one.
	Decide(req *scheduling.Request) (a scheduling.Answer, ok bool)
	// Wait records that a session waits for something else than capacity. It returns when
	// to check it again at the latest.
	Wait(session types.NamespacedName, uid types.UID, rank queue.Rank, reason string) time.Duration
	// Done ends a pass: placed reports whether its placement was written.
	Done(session types.NamespacedName, placed bool, err error)
	// Forget removes a session that is no longer to be placed.
	Forget(session types.NamespacedName)
	// Pending returns the sessions whose requests fit no member.
	Pending(of func(*scheduling.Request) bool) []types.NamespacedName
}

// ask returns the scheduler's answer to a request. If ok is false, there is none yet.
func (r *Reconciler) ask(p *pass, req *scheduling.Request) (a scheduling.Answer, ok bool) {
	if d, claimed := r.claimed(p.session); claimed {
		p.await(d.Reason)
		return scheduling.Answer{Decision: d}, true
	}
	req.Session, req.Rank = client.ObjectKeyFromObject(p.session), rankOf(p.session)
	a, ok = r.Scheduler.Decide(req)
	p.again = backoff.Sooner(p.again, a.Again)
	p.holds = p.holds || a.Placed || a.Other != nil && a.Other.Placed
	if ok && !a.Placed {
		_, _, fade := r.memory.Refusals(p.session.UID, r.Clock.Now())
		p.again = backoff.Sooner(p.again, fade)
	}
	return a, ok
}

// await records that the session waits for something else than capacity.
func (p *pass) await(reason string) {
	p.waits = reason
}

// explained returns why no member takes a session, and, if that applies, that it is only
// rechecked periodically.
func explained(a scheduling.Answer, message string) string {
	if a.Crowd == "" {
		return message
	}
	return fmt.Sprintf("%s; it is rechecked every %s at the latest and not when capacity is reported, since %s are waiting before it: delete sessions, or ask for the same resources and placement as others",
		message, scheduling.RecheckAtMost, a.Crowd)
}

// rankOf returns the rank of a session among the pending ones.
func rankOf(s *v1alpha1.VDISession) queue.Rank {
	return queue.Rank{Priority: s.Spec.Placement.Priority, Namespace: s.Namespace, User: s.Spec.User, Since: waitsSince(s)}
}

// waitsSince returns since when a session has not been placed, or, before its first
// placement, when it was created.
func waitsSince(s *v1alpha1.VDISession) time.Time {
	for i := range s.Status.Conditions {
		c := &s.Status.Conditions[i]
		if c.Type == v1alpha1.ConditionScheduled && s.Status.Epoch > 0 {
			return c.LastTransitionTime.Time
		}
	}
	return s.CreationTimestamp.Time
}

// pauses reports whether the session pauses because too many members in a row have refused
// it. The condition names them.
func (r *Reconciler) pauses(p *pass) bool {
	s, now := p.session, r.Clock.Now()
	why, left, _ := r.memory.Refusals(s.UID, now)
	if left == 0 {
		return false
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled); c == nil || c.Reason != v1alpha1.ReasonRefused {
		r.unscheduled(p, v1alpha1.ReasonRefused, "refused: "+strings.Join(slices.Sorted(maps.Values(why)), "; ")+"; it is tried again after a pause")
	}
	p.await(v1alpha1.ReasonRefused)
	p.again = backoff.Sooner(p.again, left)
	return true
}

// Willing reports whether a member that has refused a session for lack of capacity has
// reported its capacity since.
func (r *Reconciler) Willing(session, member types.UID) bool {
	return r.memory.Willing(session, member, r.Fleet.ReportedAt(member))
}

// followMembers enqueues the sessions of a member that has changed.
func (r *Reconciler) followMembers(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	changed := workqueue.NewTyped[string]()
	context.AfterFunc(ctx, changed.ShutDown)
	r.Fleet.Listen(func(c member.Change) {
		if c.Kind == member.MemberChanged {
			changed.Add(c.Member)
		}
	})
	go func() {
		for {
			name, end := changed.Get()
			if end {
				return
			}
			for _, req := range r.listed(ctx, client.MatchingFields{index.Member: name}) {
				q.Add(req)
			}
			changed.Done(name)
		}
	}()
	return nil
}
