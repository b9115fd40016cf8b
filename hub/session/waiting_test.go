package session

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/sessiontest"
)

// rooms is a fleet that answers how much room there is, and counts the questions.
type rooms struct {
	Fleet
	// free by member, and by template within it.
	free map[types.UID]map[string]int64
	// again is the room for those that lie idle in a member.
	again    map[types.UID]int64
	reported time.Time
	asked    int
	of       [][]types.UID
}

func (f *rooms) Slots(req placement.Request, members []types.UID, most int64) int64 {
	f.asked++
	f.of = append(f.of, members)
	var sum int64
	for m, free := range f.free {
		_, refused := req.Refused[m]
		if !refused && (members == nil || slices.Contains(members, m)) {
			sum += free[req.Template.Name]
		}
	}
	return min(sum, most)
}

func (f *rooms) ResumeSlots(_ placement.Request, member types.UID, most int64) int64 {
	f.asked++
	return min(f.again[member], most)
}

func (f *rooms) ReportedAt(types.UID) time.Time { return f.reported }

// lineOf is a Reconciler of which nothing is used but who waits.
func lineOf(f *rooms) *Reconciler {
	scheme := runtime.NewScheme()
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	none := func(client.Object) []string { return nil }
	c := fake.NewClientBuilder().WithScheme(scheme).WithIndex(&v1alpha1.VDISession{}, index.Member, none).Build()
	return &Reconciler{Client: c, Fleet: f, Clock: clocktesting.NewFakeClock(sessiontest.Now)}
}

// waitFor has a session wait, by number: user, age and priority are as given.
func (r *Reconciler) waitFor(name, user string, priority int32, q *question) reconcile.Request {
	s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: "desktops", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(sessiontest.Now.Add(-time.Minute))}}
	s.Spec.User, s.Spec.Placement.Priority = user, priority
	r.wish(&pass{session: s}, q)
	return requestFor(s)
}

// wish has a pass find that its session waits.
func (r *Reconciler) wish(p *pass, q *question) {
	r.await(p, v1alpha1.ReasonUnschedulable, q)
	r.enlist(p)
}

func asks(template string, change ...func(*question)) *question {
	q := &question{request: placement.Request{Namespace: "desktops", Template: placement.TemplateKey{Name: template, Revision: "r1"}}}
	for _, f := range change {
		f(q)
	}
	return q
}

// called lists the names of those that some news calls.
func (r *Reconciler) called(changes ...member.Change) []string {
	n := newNews()
	for _, c := range changes {
		n.note(c)
	}
	var names []string
	call := func(req reconcile.Request) { names = append(names, req.Name) }
	w := wave{of: n.read(), number: r.waiting().begin()}
	for r.spread(w, call) {
	}
	r.spreadToChanged(context.Background(), w.of, call)
	return names
}

func roomIn(uid types.UID) member.Change {
	return member.Change{Kind: member.MemberCapacity, UID: uid, Member: string(uid)}
}

func TestRoomCallsNoMoreThanItHelps(t *testing.T) {
	f := &rooms{free: map[types.UID]map[string]int64{sessiontest.Here: {"browser": 2}}}
	r := lineOf(f)
	for i := range 100 {
		r.waitFor(fmt.Sprint("b", i), "ann", 0, asks("browser"))
		r.waitFor(fmt.Sprint("g", i), "ann", 0, asks("gpu"))
	}
	if got := r.called(roomIn(sessiontest.Here)); !slices.Equal(got, []string{"b0", "b1", "b2"}) {
		t.Errorf("called %v, want the first two that fit and one more", got)
	}
	if f.asked != 2 {
		t.Errorf("%d questions for 200 sessions of 2 classes", f.asked)
	}
	if got := r.called(roomIn(sessiontest.Elsewhere)); len(got) > 0 {
		t.Errorf("called %v by a member without room", got)
	}
	if got := r.called(member.Change{Kind: member.MemberSessions, UID: sessiontest.Here}); len(got) > 0 {
		t.Errorf("called %v when a member got more sessions", got)
	}
}

func TestThoseThatAreCalledAreFirstInOrder(t *testing.T) {
	f := &rooms{free: map[types.UID]map[string]int64{sessiontest.Here: {"browser": 1}}}
	r := lineOf(f)
	for i := range 50 {
		r.waitFor(fmt.Sprint("burst", i), "ann", 0, asks("browser"))
	}
	r.waitFor("single", "ben", 0, asks("browser"))
	if got := r.called(roomIn(sessiontest.Here)); !slices.Equal(got, []string{"burst0", "single"}) {
		t.Errorf("called %v", got)
	}
	if got := r.called(roomIn(sessiontest.Here)); !slices.Equal(got, []string{"burst0", "single"}) {
		t.Errorf("called %v the second time: nobody got a place meanwhile", got)
	}
	r.waiting().strike(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "desktops", Name: "burst0"}}, true, sessiontest.Now)
	if got := r.called(roomIn(sessiontest.Here)); !slices.Equal(got, []string{"single", "burst1"}) {
		t.Errorf("called %v after ann got a place", got)
	}
	r.waitFor("high", "ann", 7, asks("browser"))
	if got := r.called(roomIn(sessiontest.Here)); !slices.Equal(got, []string{"high", "single"}) {
		t.Errorf("called %v after one of higher priority came", got)
	}
}

func TestWhatCallsWhom(t *testing.T) {
	capped := func(q *question) {
		q.request.PolicyName = "gold"
		q.request.Policy = &v1alpha1.PlacementPolicySpec{SessionCaps: v1alpha1.SessionCaps{Total: ptr.To[int32](1)}}
	}
	uncapped := func(q *question) {
		q.request.PolicyName, q.request.Policy = "gold", &v1alpha1.PlacementPolicySpec{}
	}
	idleHere := func(stays bool) func(*question) {
		return func(q *question) { q.in, q.stays = &v1alpha1.ClusterRef{Name: "here", UID: sessiontest.Here}, stays }
	}
	refusedBy := func(member types.UID) func(*question) {
		return func(q *question) { q.request.Refused = map[types.UID]string{member: "NoRoom: full"} }
	}
	free := map[types.UID]map[string]int64{sessiontest.Elsewhere: {"browser": 1}}
	for _, c := range []struct {
		name   string
		fleet  rooms
		asks   *question
		change member.Change
		called bool
	}{
		{"room in a member", rooms{free: free}, asks("browser"), roomIn(sessiontest.Elsewhere), true},
		{"a member that came, or was opened", rooms{free: free}, asks("browser"), member.Change{Kind: member.MemberChanged, UID: sessiontest.Elsewhere}, true},
		{"a member that connected", rooms{free: free}, asks("browser"), member.Change{Kind: member.MemberConnected, UID: sessiontest.Elsewhere}, true},
		{"a cap that counts less", rooms{free: free}, asks("browser", capped), member.Change{Kind: member.PolicyCapacity, Policy: "gold"}, true},
		{"another policy's cap", rooms{free: free}, asks("browser", capped), member.Change{Kind: member.PolicyCapacity, Policy: "tin"}, false},
		{"a policy without caps", rooms{free: free}, asks("browser", uncapped), member.Change{Kind: member.PolicyCapacity, Policy: "gold"}, false},
		{"room where it lies idle", rooms{again: map[types.UID]int64{sessiontest.Here: 1}}, asks("browser", idleHere(true)), roomIn(sessiontest.Here), true},
		{"room elsewhere, for one that stays", rooms{free: free}, asks("browser", idleHere(true)), roomIn(sessiontest.Elsewhere), false},
		{"room elsewhere, for one that may go", rooms{free: free}, asks("browser", idleHere(false)), roomIn(sessiontest.Elsewhere), true},
		{"room that is not for it", rooms{free: free}, asks("gpu"), roomIn(sessiontest.Elsewhere), false},
		{"room in a member that refused it before it reported", rooms{free: free, reported: sessiontest.Now.Add(time.Second)}, asks("browser", refusedBy(sessiontest.Elsewhere)), roomIn(sessiontest.Elsewhere), true},
		{"room in a member that refused it since", rooms{free: free, reported: sessiontest.Now.Add(-time.Second)}, asks("browser", refusedBy(sessiontest.Elsewhere)), roomIn(sessiontest.Elsewhere), false},
		{"no room in a member that refused it", rooms{reported: sessiontest.Now.Add(time.Second)}, asks("browser", refusedBy(sessiontest.Elsewhere)), roomIn(sessiontest.Elsewhere), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := lineOf(&c.fleet)
			r.memory.refuse("uid-s", sessiontest.Elsewhere, 12, "NoRoom", "full", sessiontest.Now)
			r.waitFor("s", "ann", 0, c.asks)
			if got := len(r.called(c.change)) > 0; got != c.called {
				t.Errorf("called: %v, want %v", got, c.called)
			}
		})
	}
}

func TestAllWhoWaitSayWhatForAfterAMemberChanged(t *testing.T) {
	r := lineOf(&rooms{})
	for i := range 250 {
		r.waitFor(fmt.Sprint("s", i), "ann", 0, asks(fmt.Sprint("t", i%3)))
	}
	r.waitFor("home", "ann", 0, nil)
	look := func(c member.Change) (n int, last time.Duration) {
		news := newNews()
		news.note(c)
		r.correct(news.read(), func(_ reconcile.Request, after time.Duration) { n, last = n+1, max(last, after) })
		return n, last
	}
	if n, _ := look(roomIn(sessiontest.Here)); n > 0 {
		t.Errorf("%d look again after a report of capacity", n)
	}
	n, last := look(member.Change{Kind: member.MemberChanged, Member: "here", UID: sessiontest.Here})
	if n != 250 || last < 2*time.Second {
		t.Errorf("%d look again within %s, want all 250, %d a second", n, last, looksASecond)
	}
	if n, _ := look(member.Change{Kind: member.MemberConnected, Member: "here", UID: sessiontest.Here}); n != 250 {
		t.Errorf("%d look again after a member was connected, want all 250", n)
	}
	of := asks("t1").request.Template
	if n, _ := look(member.Change{Kind: member.MemberTemplates, Member: "here", UID: sessiontest.Here, Templates: []placement.TemplateKey{of}}); n != 83 {
		t.Errorf("%d look again after a member judged %s again, want the 83 that ask for it", n, of)
	}
}

func TestWhoWaitsNoMoreIsNotCalled(t *testing.T) {
	f := &rooms{free: map[types.UID]map[string]int64{sessiontest.Here: {"browser": 5}}}
	r := lineOf(f)
	item := r.waitFor("s", "ann", 0, asks("browser"))
	r.waitFor("home", "ann", 0, nil)
	if got := r.called(roomIn(sessiontest.Here)); !slices.Equal(got, []string{"s"}) {
		t.Errorf("called %v: room does not help who waits for his home", got)
	}
	r.waiting().strike(item, false, sessiontest.Now)
	if got := r.called(roomIn(sessiontest.Here)); len(got) > 0 {
		t.Errorf("called %v, who waits no more", got)
	}
	if len(r.waiting().classes) > 0 {
		t.Error("a class without sessions is remembered")
	}
	reasons, classes, oldest := r.waiting().count()
	if diff := cmp.Diff(map[string]int{v1alpha1.ReasonUnschedulable: 1}, reasons); diff != "" || classes != 0 || !oldest.Equal(sessiontest.Now.Add(-time.Minute)) {
		t.Errorf("%d classes, oldest since %s, reasons (-want +got):\n%s", classes, oldest, diff)
	}
}

func TestClassesAskWhatDecidesWhetherItFits(t *testing.T) {
	base := asks("browser").key()
	for name, change := range map[string]func(*question){
		"the template's revision": func(q *question) { q.request.Template.Revision = "r2" },
		"namespace":               func(q *question) { q.request.Namespace = "other" },
		"resources":               func(q *question) { q.request.Resources = placement.Resources{"cpu": 1000} },
		"policy":                  func(q *question) { q.request.PolicyName = "gold" },
		"regions":                 func(q *question) { q.request.RequiredRegions = []string{"eu"} },
		"selector": func(q *question) {
			q.request.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"tolerations": func(q *question) { q.request.ClusterTolerations = []corev1.Toleration{{Key: "gpu"}} },
		"home":        func(q *question) { q.request.Home = &v1alpha1.ClusterRef{UID: sessiontest.Here} },
		"refusals":    func(q *question) { q.request.Refused = map[types.UID]string{sessiontest.Here: "x"} },
		"failover":    func(q *question) { q.request.Failover = true },
		"where it is": func(q *question) { q.in = &v1alpha1.ClusterRef{UID: sessiontest.Here} },
		"a user where users are counted": func(q *question) {
			q.request.User, q.request.Policy = "ann", &v1alpha1.PlacementPolicySpec{SessionCaps: v1alpha1.SessionCaps{PerUser: ptr.To[int32](1)}}
		},
	} {
		if asks("browser", change).key() == base {
			t.Errorf("%s makes no class of its own", name)
		}
	}
	same := asks("browser", func(q *question) {
		q.request.UID, q.request.Name, q.request.User, q.request.Priority = "u", "n", "ben", 9
		q.request.PreferredRegions = []string{"eu"}
	})
	if same.key() != base {
		t.Error("who asks, or where it would rather go, makes a class")
	}
}

func TestWhoWaitsIsLookedAtAgainAfterAsLongAgain(t *testing.T) {
	c := clocktesting.NewFakeClock(sessiontest.Now)
	r := &Reconciler{Fleet: &rooms{}, Clock: c}
	s := &v1alpha1.VDISession{ObjectMeta: metav1.ObjectMeta{Namespace: "desktops", Name: "s", UID: "s"}}
	for _, want := range []time.Duration{30, 30, 60, 120, 240, 300, 300} {
		want *= time.Second
		p := &pass{session: s}
		r.wish(p, asks("browser"))
		if p.again > want || p.again < want*8/10 {
			t.Errorf("looked at again after %s, want about %s", p.again, want)
		}
		c.Step(want)
	}
	p := &pass{session: s}
	if r.wish(p, asks("gpu")); p.again > DefaultLookAfter {
		t.Errorf("looked at again after %s though it asks for something else now", p.again)
	}
	r.memory.refuse("s", sessiontest.Here, 13, "NoRoom", "full", c.Now())
	if r.wish(p, asks("gpu")); p.again > refusalLasts+time.Second {
		t.Errorf("looked at again after %s though a refusal fades sooner", p.again)
	}
}

// BenchmarkWake is one report of capacity where 5,000 sessions of 10 classes
// wait: what matters is how often the fleet is asked.
func BenchmarkWake(b *testing.B) {
	for _, room := range []int64{0, 1, 100} {
		b.Run(fmt.Sprintf("room for %d of each class", room), func(b *testing.B) {
			free := map[string]int64{}
			f := &rooms{free: map[types.UID]map[string]int64{sessiontest.Here: free}}
			r := lineOf(f)
			for i := range 5000 {
				template := fmt.Sprint("t", i%10)
				free[template] = room
				r.waitFor(fmt.Sprint("s", i), fmt.Sprint("u", i%700), int32(i%3), asks(template))
			}
			b.ReportAllocs()
			b.ResetTimer()
			called := 0
			for range b.N {
				n := newNews()
				n.note(roomIn(sessiontest.Here))
				r.spread(wave{of: n.read(), number: r.waiting().begin()}, func(reconcile.Request) { called++ })
			}
			b.ReportMetric(float64(f.asked)/float64(b.N), "questions/event")
			b.ReportMetric(float64(called)/float64(b.N), "called/event")
		})
	}
}
