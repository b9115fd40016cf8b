package scheduling

import (
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/queue"
)

const (
	here  types.UID = "uid-here"
	there types.UID = "uid-there"
)

var start = time.Date(2026, 5, 4, 10, 0, 0, 0, time.UTC)

// slots is a fleet with slots by member and template that counts the calls.
type slots struct {
	mu   sync.Mutex
	free map[types.UID]map[string]int64
	// idle are the slots for idle sessions of a member.
	idle map[types.UID]int64
	// held are the slots of each session: the template by member.
	held map[types.UID]map[types.UID]string
	// away are members that are not ready.
	away map[types.UID]bool
	// capped are the users that have reached their policy's cap.
	capped map[string]bool
	// verdict on failovers.
	verdict  failover.Verdict
	lookups  int
	of       [][]types.UID
	decided  []string
	released int
	listener func(member.Change)
	// deciding runs before each decision, without the lock.
	deciding func(session string)
}

func (f *slots) Listen(listener func(member.Change)) { f.listener = listener }

func (f *slots) Slots(req placement.Request, members []types.UID, most int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookups++
	f.of = append(f.of, members)
	if (&Request{Placement: req}).countsUser() && f.capped[req.User] {
		return 0
	}
	var sum int64
	for m, free := range f.free {
		_, refused := req.Refused[m]
		if !refused && (members == nil || slices.Contains(members, m)) {
			sum += free[req.Template.Name]
		}
	}
	return min(sum, most)
}

func (f *slots) ResumeSlots(_ placement.Request, member types.UID, most int64) int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookups++
	return min(f.idle[member], most)
}

func (f *slots) Place(req placement.Request, _ int64) placement.Decision {
	if f.deciding != nil {
		f.deciding(req.Name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decided = append(f.decided, req.Name)
	if f.capped[req.User] {
		return placement.Decision{Reason: v1alpha1.ReasonPolicyCap, Message: "user " + req.User + " has one"}
	}
	for _, m := range []types.UID{here, there} {
		if _, refused := req.Refused[m]; !refused && f.free[m][req.Template.Name] > 0 {
			f.free[m][req.Template.Name]--
			f.hold(req.UID, m, req.Template.Name)
			return placement.Decision{Placed: true, Cluster: v1alpha1.ClusterRef{Name: string(m), UID: m}, Reason: v1alpha1.ReasonPlaced, Message: "it fits"}
		}
	}
	return placement.Decision{Reason: v1alpha1.ReasonUnschedulable, Message: "2 clusters: 2 lack " + req.Template.Name}
}

func (f *slots) hold(session, m types.UID, template string) {
	if f.held == nil {
		f.held = map[types.UID]map[types.UID]string{}
	}
	f.held[session] = map[types.UID]string{m: template}
}

func (f *slots) Resume(req placement.Request, in v1alpha1.ClusterRef, _, _ int64) (placement.Decision, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decided = append(f.decided, req.Name)
	if f.idle[in.UID] == 0 {
		return placement.Decision{Message: in.Name + " lacks cpu"}, f.away[in.UID]
	}
	f.idle[in.UID]--
	return placement.Decision{Placed: true, Cluster: in, Reason: v1alpha1.ReasonPlaced}, false
}

func (f *slots) Failover(req placement.Request, _ failover.Session, _ types.UID, epoch int64) (placement.Decision, failover.Verdict) {
	if !f.verdict.Due || f.verdict.Wait > 0 {
		return placement.Decision{}, f.verdict
	}
	return f.Place(req, epoch), f.verdict
}

// Release releases what a session holds.
func (f *slots) Release(session types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.released++
	for m, template := range f.held[session] {
		f.free[m][template]++
	}
	delete(f.held, session)
}

// fixture is a scheduler whose loop runs by hand.
type fixture struct {
	*testing.T
	*Scheduler
	fleet *slots
	clock *clocktesting.FakeClock
	// enqueued are the sessions whose controllers are to reconcile, by name.
	enqueued []string
}

func newFixture(t *testing.T, f *slots) *fixture {
	l := &fixture{T: t, fleet: f, clock: clocktesting.NewFakeClock(start)}
	l.Scheduler = New(Options{Cache: f, Members: f, Clock: l.clock})
	return l
}

func (l *fixture) enqueue(session types.NamespacedName) {
	l.enqueued = append(l.enqueued, session.Name)
}

// decide decides on all that are queued, and returns what it enqueues.
func (l *fixture) decide() []string {
	l.enqueued = nil
	for l.Step(l.enqueue) {
	}
	return l.enqueued
}

// request returns the request of a session that has waited for a minute.
func request(name, user, template string, change ...func(*Request)) *Request {
	r := &Request{
		Session: types.NamespacedName{Namespace: "desktops", Name: name},
		Rank:    queue.Rank{Namespace: "desktops", User: user, Since: start.Add(-time.Minute)},
		Placement: placement.Request{
			UID: types.UID("uid-" + name), Namespace: "desktops", Name: name, User: user, Template: placement.TemplateKey{Name: template, Revision: "r1"},
		},
		Epoch: 1,
	}
	for _, f := range change {
		f(r)
	}
	return r
}

func priority(p int32) func(*Request) {
	return func(r *Request) { r.Rank.Priority = p }
}

// request requests a decision in a reconcile that writes nothing.
func (l *fixture) request(r *Request) (Answer, bool) {
	a, ok := l.Decide(r)
	l.Done(r.Session, false, nil)
	return a, ok
}

// wait requests a decision, and requires the answer that no member fits.
func (l *fixture) wait(r *Request) {
	l.Helper()
	if _, ok := l.request(r); ok {
		l.Fatalf("%s is answered before it is decided on", r.Session.Name)
	}
	l.decide()
	if a, ok := l.request(r); !ok || a.Placed {
		l.Fatalf("%s: answered %t, placed %t, want that it fits no member", r.Session.Name, ok, a.Placed)
	}
}

// placed reads the answer to a request, requires a placement, and writes it.
func (l *fixture) placed(r *Request) {
	l.Helper()
	a, ok := l.Decide(r)
	if !ok || !a.Placed {
		l.Fatalf("%s: answered %t, placed %t", r.Session.Name, ok, a.Placed)
	}
	l.Done(r.Session, true, nil)
}

// requeued returns the sessions that changes of the fleet have requeued.
func (l *fixture) requeued(changes ...member.Change) []string {
	for _, c := range changes {
		l.events.record(c)
	}
	l.enqueued = nil
	for l.evaluateBatch(l.enqueue) {
		l.clock.Step(batchInterval)
	}
	return append(l.queued(), l.enqueued...)
}

// queued returns the queued sessions in their order.
func (l *fixture) queued() []string {
	var out []string
	for _, e := range l.active.First(l.active.Len(), l.clock.Now()) {
		out = append(out, e.session.Name)
	}
	return out
}

// dismiss makes queued sessions pending again without a decision.
func (l *fixture) dismiss() {
	for _, e := range l.sessions {
		if e.state == queued {
			l.active.Remove(e)
			e.class.requeueDone(e, l.queue)
			e.state = waiting
		}
	}
}

func capacityIn(uid types.UID) member.Change {
	return member.Change{Kind: member.MemberCapacity, UID: uid, Member: string(uid)}
}
