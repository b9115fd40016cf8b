package session

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

const (
	// DefaultLookAfter is when a session that waits is looked at again though
	// nothing has happened that could help; then after as long again as it has
	// waited by then, lookAtMost at the most.
	DefaultLookAfter = 30 * time.Second
	lookAtMost       = 5 * time.Minute
)

// question is what a session that waits asks of the fleet. Whoever asks the same
// gets the same answer.
type question struct {
	// request for any member that there is.
	request placement.Request
	// in is the member where the session lies idle and may run again; nil: it is
	// placed nowhere. stays: it goes to no other.
	in    *v1alpha1.ClusterRef
	stays bool
}

// key is the same for questions that are answered alike: of what is asked, all
// that decides whether it fits, and nothing that decides where. Who asks belongs
// to it only where the policy counts by users.
func (q *question) key() string {
	r := &q.request
	var b strings.Builder
	fmt.Fprintf(&b, "%q %q %q %q", r.Template.Name, r.Template.Revision, r.Namespace, r.PolicyName)
	if r.Policy != nil && r.Policy.SessionCaps.PerUser != nil {
		fmt.Fprintf(&b, " user %q", r.User)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Resources)) {
		fmt.Fprintf(&b, " %q=%d", name, r.Resources[name])
	}
	if len(r.RequiredRegions) > 0 {
		fmt.Fprintf(&b, " in %q", r.RequiredRegions)
	}
	if r.ClusterSelector != nil {
		fmt.Fprintf(&b, " where %q", metav1.FormatLabelSelector(r.ClusterSelector))
	}
	for i := range r.ClusterTolerations {
		t := &r.ClusterTolerations[i]
		fmt.Fprintf(&b, " tolerates %q %q %q %q", t.Key, t.Operator, t.Value, t.Effect)
	}
	if r.Home != nil {
		fmt.Fprintf(&b, " home %q", r.Home.UID)
	}
	if len(r.Refused) > 0 {
		fmt.Fprintf(&b, " not %q", slices.Sorted(maps.Keys(r.Refused)))
	}
	if q.in != nil {
		fmt.Fprintf(&b, " idle in %q %t", q.in.UID, q.stays)
	}
	fmt.Fprintf(&b, " failover %t", r.Failover)
	return b.String()
}

// wish is what a pass found that its session waits for.
type wish struct {
	reason string
	// question that it asks; nil: room does not help.
	question *question
}

// await says that the session waits, and what it asks for; nil: room does not
// help. A pass that does not say so ends the wait.
func (r *Reconciler) await(p *pass, reason string, q *question) { p.waits = &wish{reason, q} }

// rechecked adds to a message that its session is only rechecked by time, where
// that is so.
func (r *Reconciler) rechecked(p *pass, message string, q *question) string {
	crowd := r.waiting().crowdedOut(requestFor(p.session), rankAmongWaiting(p.session), q)
	if crowd == "" {
		return message
	}
	return fmt.Sprintf("%s; it is rechecked every %s at the latest and not when capacity is reported, since %s are waiting before it: delete sessions, or ask for the same resources and placement as others",
		message, lookAtMost, crowd)
}

// enlist notes what the pass found that the session waits for, and asks for
// another look if nothing that happens calls it before.
func (r *Reconciler) enlist(p *pass) {
	now, s, w := r.Clock.Now(), p.session, p.waits
	asked := r.waiting().add(requestFor(s), waiter{uid: s.UID, reason: w.reason, rank: rankAmongWaiting(s)}, w.question, now)
	look := r.lookAfter()
	wait := max(look, min(now.Sub(asked), lookAtMost))
	if w.reason == v1alpha1.ReasonHubRestored {
		wait = look // it ends by time, which nothing tells of
	}
	p.again = backoff.Sooner(p.again, jitter(wait))
	_, _, fade := r.memory.refusals(s.UID, now)
	p.again = backoff.Sooner(p.again, fade)
}

// outOfTurn is whether the capacity that has just become free is for sessions that
// ask for the same and come first, but have not been decided on yet: one that is new,
// or that happens to be reconciled now, does not overtake them.
func (r *Reconciler) outOfTurn(s *v1alpha1.VDISession, q *question) bool {
	item, now := requestFor(s), r.Clock.Now()
	c, size := r.waiting().disputed(item, q.key(), r.news().unread())
	if c == nil {
		return false
	}
	room := r.Fleet.Slots(q.request, nil, size+1)
	if room == 0 {
		return false
	}
	if !r.waiting().has(item) {
		// Its priority and the turn of its user may put it first.
		r.waiting().add(item, waiter{uid: s.UID, reason: v1alpha1.ReasonUnschedulable, rank: rankAmongWaiting(s)}, q, now)
	}
	return !slices.ContainsFunc(r.waiting().first(c, room, now), func(f called) bool { return f.item == item })
}

// letPass has a session wait while the room there is goes to others.
func (r *Reconciler) letPass(p *pass, q *question) {
	c := meta.FindStatusCondition(p.session.Status.Conditions, v1alpha1.ConditionScheduled)
	if c == nil || c.Status != metav1.ConditionFalse {
		r.unscheduled(p, v1alpha1.ReasonUnschedulable, "the free capacity goes to sessions that come first")
		c = meta.FindStatusCondition(p.session.Status.Conditions, v1alpha1.ConditionScheduled)
	}
	r.await(p, c.Reason, q)
	p.again = wakeAfter
}

// pauses is whether the session waits a little because too many members in a row
// have refused it. It says so, and by whom.
func (r *Reconciler) pauses(p *pass) bool {
	s, now := p.session, r.Clock.Now()
	why, left, _ := r.memory.refusals(s.UID, now)
	if left == 0 {
		return false
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled); c == nil || c.Reason != v1alpha1.ReasonRefused {
		r.unscheduled(p, v1alpha1.ReasonRefused, "refused: "+strings.Join(slices.Sorted(maps.Values(why)), "; ")+"; it is tried again after a pause")
	}
	r.await(p, v1alpha1.ReasonRefused, nil)
	p.again = backoff.Sooner(p.again, left)
	return true
}

func (r *Reconciler) lookAfter() time.Duration {
	if r.LookAfter > 0 {
		return r.LookAfter
	}
	return DefaultLookAfter
}

// jitter keeps those that wait together from looking together: up to a tenth
// sooner.
func jitter(d time.Duration) time.Duration {
	return d - time.Duration(rand.Int64N(int64(d)/10+1)) //nolint:gosec // nothing is secret about it
}

// asksAgain is a question without the refusal of one member.
func (q *question) asksAgain(member types.UID) placement.Request {
	req := q.request
	req.Refused = maps.Clone(req.Refused)
	delete(req.Refused, member)
	return req
}
