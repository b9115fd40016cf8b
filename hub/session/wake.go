package session

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
)

const (
	// wakeAfter gathers a burst of changes before anybody is looked at again.
	wakeAfter = 100 * time.Millisecond
	// looksASecond is how many of those that wait are looked at again, so that
	// they say what they wait for now, after a member changed that helps none.
	looksASecond = 100
)

// What calls sessions that wait, as the metric says it.
const (
	calledByRoom     = "capacity"
	calledByMember   = "member"
	calledByCap      = "cap"
	calledByPolicy   = "policy"
	calledByTemplate = "template"
	calledByHome     = "home"
	calledToLook     = "look"
)

// news is what has changed of the fleet since it was last read. It holds each
// member once, however often that changes.
type news struct {
	mu sync.Mutex
	// members that may have room that they had not, by UID; true: by a change of
	// the member itself.
	members map[types.UID]bool
	// changed are the names of members that have changed themselves.
	changed map[string]bool
	// connected: a member's agent is connected, which until then pending sessions said to
	// wait for.
	connected bool
	// policies whose caps count less, by name.
	policies map[string]bool
	// judged are templates of which a member says something else than before.
	judged map[placement.TemplateKey]bool
	// some is there when there are any.
	some chan struct{}
}

func newNews() *news { return &news{some: make(chan struct{}, 1)} }

// note a change. It never blocks.
func (n *news) note(c member.Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.members == nil {
		n.members, n.changed, n.policies = map[types.UID]bool{}, map[string]bool{}, map[string]bool{}
		n.judged = map[placement.TemplateKey]bool{}
	}
	switch c.Kind {
	case member.MemberSessions:
		return
	case member.PolicyCapacity:
		n.policies[c.Policy] = true
	case member.MemberTemplates:
		for _, t := range c.Templates {
			n.judged[t] = true
		}
	case member.MemberChanged:
		n.changed[c.Member] = true
		n.members[c.UID] = true
	case member.MemberConnected, member.MemberCapacity:
		n.connected = n.connected || c.Kind == member.MemberConnected
		if _, known := n.members[c.UID]; !known {
			n.members[c.UID] = false
		}
	}
	select {
	case n.some <- struct{}{}:
	default:
	}
}

// read takes the news.
func (n *news) read() *news {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := &news{members: n.members, changed: n.changed, connected: n.connected, policies: n.policies, judged: n.judged}
	n.members, n.changed, n.connected, n.policies, n.judged = nil, nil, false, nil, nil
	return out
}

// wake enqueues the sessions that wait when something changed that helps them,
// and those of a member that changed.
func (r *Reconciler) wake(ctx context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	n := r.news()
	r.Fleet.Listen(n.note)
	go func() {
		var w wave
		for {
			if w.of == nil {
				select {
				case <-ctx.Done():
					return
				case <-n.some:
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wakeAfter):
			}
			if got := n.read(); got.any() {
				r.spreadToChanged(ctx, got, q.Add)
				r.correct(got, q.AddAfter)
				w = wave{of: got.over(w.of), number: r.waiting().begin()}
			}
			if w.of != nil && !r.spread(w, q.Add) {
				w.of = nil
			}
		}
	}()
	return nil
}

// wave is changes that every class of those that wait is asked about, batch by
// batch. What changes meanwhile is added to it, and it starts over with the classes
// that were not asked for longest: each gets its turn.
type wave struct {
	of     *news
	number uint64
}

// unread is whether there are news that nobody has read yet.
func (n *news) unread() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.any()
}

// any is whether there are any news.
func (n *news) any() bool {
	return len(n.members) > 0 || len(n.changed) > 0 || len(n.policies) > 0 || len(n.judged) > 0
}

// over is the news and what of earlier news not everybody was asked about.
func (n *news) over(earlier *news) *news {
	out := &news{members: map[types.UID]bool{}, policies: map[string]bool{}}
	for _, one := range []*news{earlier, n} {
		if one == nil {
			continue
		}
		for member, itself := range one.members {
			out.members[member] = out.members[member] || itself
		}
		maps.Copy(out.policies, one.policies)
	}
	return out
}

// spread asks a batch of classes about a wave, and calls those that it helps. more:
// others are still to be asked.
func (r *Reconciler) spread(w wave, call func(reconcile.Request)) (more bool) {
	n := w.of
	classes, more := r.waiting().asking(w.number)
	for _, a := range classes {
		room, by := a.question.ask(r.Fleet, n, int64(a.size))
		if room > 0 {
			// One more than fit, for what was reckoned too cautiously.
			for _, c := range r.waiting().call(a.class, room+1, r.Clock.Now()) {
				wakeUps.WithLabelValues(by).Inc()
				call(c.item)
			}
		}
		r.spreadToRefused(a, n, call)
	}
	return more
}

// spreadToChanged calls the sessions of members that have changed.
func (r *Reconciler) spreadToChanged(ctx context.Context, n *news, call func(reconcile.Request)) {
	for member := range n.changed {
		for _, req := range r.listed(ctx, client.MatchingFields{index.Member: member}) {
			call(req)
		}
	}
}

// correct has those who wait look again, a few a second, where what they say that
// they wait for may not be so any more: everybody after a member came, changed or
// went, and those of a template after a member has judged that again.
func (r *Reconciler) correct(n *news, later func(reconcile.Request, time.Duration)) {
	concerned := func(q *question) bool { return len(n.changed) > 0 || n.connected || n.judged[q.request.Template] }
	for i, item := range r.waiting().everybody(concerned) {
		wakeUps.WithLabelValues(calledToLook).Inc()
		later(item, time.Second+time.Duration(i)*time.Second/looksASecond)
	}
}

// ask how many that ask this fit by what has changed, up to most, and what of it
// it was.
func (q *question) ask(f Fleet, n *news, most int64) (room int64, by string) {
	by = calledByRoom
	var members []types.UID
	if p := q.request.Policy; p != nil && p.SessionCaps != (v1alpha1.SessionCaps{}) && n.policies[q.request.PolicyName] {
		by = calledByCap // room is anywhere
	} else {
		members = slices.Collect(maps.Keys(n.members))
		for _, itself := range n.members {
			if itself {
				by = calledByMember
			}
		}
		if len(members) == 0 {
			return 0, by
		}
	}
	if _, touched := n.members[memberOf(q)]; q.in != nil && touched {
		room = f.ResumeSlots(inPlace(q.request), q.in.UID, most)
	}
	if !q.stays && room < most {
		room += f.Slots(q.request, members, most-room)
	}
	return room, by
}

// memberOf is where the session lies that asks.
func memberOf(q *question) types.UID {
	if q.in == nil {
		return ""
	}
	return q.in.UID
}

// spreadToRefused ends a refusal early where the member that refused has since
// reported room for what it refused.
func (r *Reconciler) spreadToRefused(a asking, n *news, call func(reconcile.Request)) {
	for member := range a.question.request.Refused {
		if _, touched := n.members[member]; !touched {
			continue
		}
		room := r.Fleet.Slots(a.question.asksAgain(member), []types.UID{member}, int64(a.size))
		if room == 0 {
			continue
		}
		reported := r.Fleet.ReportedAt(member)
		for _, c := range r.waiting().first(a.class, room+1, r.Clock.Now()) {
			if r.memory.lift(c.uid, member, reported) {
				wakeUps.WithLabelValues(calledByRoom).Inc()
				call(c.item)
			}
		}
	}
}
