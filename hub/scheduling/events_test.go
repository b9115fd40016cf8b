package scheduling

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

func TestCapacityQueuesNoMoreThanItHelps(t *testing.T) {
	f := &slots{free: map[types.UID]map[string]int64{here: {}}}
	l := newFixture(t, f)
	for i := range 100 {
		l.wait(request(fmt.Sprint("b", i), "ann", "browser"))
		l.wait(request(fmt.Sprint("g", i), "ann", "gpu"))
	}
	f.free[here]["browser"], f.lookups = 2, 0
	if got := l.requeued(capacityIn(here)); !slices.Equal(got, []string{"b0", "b1", "b2"}) {
		t.Errorf("queued %v, want the first two that fit and one more", got)
	}
	if f.lookups != 2 {
		t.Errorf("%d lookups for 200 sessions of 2 classes", f.lookups)
	}
	l.dismiss()
	if got := l.requeued(capacityIn(there)); len(got) > 0 {
		t.Errorf("queued %v by a member without capacity", got)
	}
	if got := l.requeued(member.Change{Kind: member.MemberSessions, UID: here}); len(got) > 0 {
		t.Errorf("queued %v when a member got more sessions", got)
	}
}

func TestQueuedSessionsAreTheFirstInOrder(t *testing.T) {
	f := &slots{free: map[types.UID]map[string]int64{here: {}}}
	l := newFixture(t, f)
	burst := map[string]*Request{}
	for i := range 50 {
		r := request(fmt.Sprint("burst", i), "ann", "browser")
		burst[r.Session.Name] = r
		l.wait(r)
	}
	l.wait(request("single", "ben", "browser"))
	f.free[here]["browser"] = 1
	for range 2 {
		if got := l.requeued(capacityIn(here)); !slices.Equal(got, []string{"burst0", "single"}) {
			t.Errorf("queued %v", got)
		}
		l.dismiss()
	}
	l.requeued(capacityIn(here))
	l.decide()
	l.placed(burst["burst0"])
	f.free[here]["browser"] = 1
	if got := l.requeued(capacityIn(here)); !slices.Equal(got, []string{"single", "burst1"}) {
		t.Errorf("queued %v after ann was served", got)
	}
	l.dismiss()
	f.free[here]["browser"] = 0
	l.wait(request("high", "ann", "browser", priority(7)))
	f.free[here]["browser"] = 1
	if got := l.requeued(capacityIn(here)); !slices.Equal(got, []string{"high", "single"}) {
		t.Errorf("queued %v after one of higher priority came", got)
	}
}

func TestEventsThatQueueSessions(t *testing.T) {
	capped := func(r *Request) {
		r.Placement.PolicyName = "gold"
		r.Placement.Policy = &v1alpha1.PlacementPolicySpec{SessionCaps: v1alpha1.SessionCaps{Total: ptr.To[int32](1)}}
	}
	uncapped := func(r *Request) {
		r.Placement.PolicyName, r.Placement.Policy = "gold", &v1alpha1.PlacementPolicySpec{}
	}
	idleHere := func(stays bool) func(*Request) {
		return func(r *Request) {
			r.Resume = &Resume{Placement: r.Placement, Member: v1alpha1.ClusterRef{Name: "here", UID: here}, Pinned: stays}
		}
	}
	refusedBy := func(m types.UID) func(*Request) {
		return func(r *Request) { r.Placement.Refused = map[types.UID]string{m: "NoCapacity: full"} }
	}
	elsewhere := func(f *slots) { f.free[there] = map[string]int64{"browser": 1} }
	none := func(*slots) {}
	for _, c := range []struct {
		name    string
		free    func(*slots)
		request *Request
		willing bool
		change  member.Change
		queued  bool
	}{
		{"capacity in a member", elsewhere, request("s", "ann", "browser"), false, capacityIn(there), true},
		{"a member that came, or was uncordoned", elsewhere, request("s", "ann", "browser"), false, member.Change{Kind: member.MemberChanged, UID: there}, true},
		{"a member that connected", elsewhere, request("s", "ann", "browser"), false, member.Change{Kind: member.MemberConnected, UID: there}, true},
		{"a cap that counts less", elsewhere, request("s", "ann", "browser", capped), false, member.Change{Kind: member.PolicyCapacity, Policy: "gold"}, true},
		{"another policy's cap", elsewhere, request("s", "ann", "browser", capped), false, member.Change{Kind: member.PolicyCapacity, Policy: "tin"}, false},
		{"a policy without caps", elsewhere, request("s", "ann", "browser", uncapped), false, member.Change{Kind: member.PolicyCapacity, Policy: "gold"}, false},
		{"capacity where it is idle", func(f *slots) { f.idle = map[types.UID]int64{here: 1} }, request("s", "ann", "browser", idleHere(true)), false, capacityIn(here), true},
		{"capacity elsewhere, for one that stays", elsewhere, request("s", "ann", "browser", idleHere(true)), false, capacityIn(there), false},
		{"capacity elsewhere, for one that may go", elsewhere, request("s", "ann", "browser", idleHere(false)), false, capacityIn(there), true},
		{"capacity that is not for it", elsewhere, request("s", "ann", "gpu"), false, capacityIn(there), false},
		{"capacity in a member that refused it before it reported", elsewhere, request("s", "ann", "browser", refusedBy(there)), true, capacityIn(there), true},
		{"capacity in a member that refused it since", elsewhere, request("s", "ann", "browser", refusedBy(there)), false, capacityIn(there), false},
		{"no capacity in a member that refused it", none, request("s", "ann", "browser", refusedBy(there)), true, capacityIn(there), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &slots{free: map[types.UID]map[string]int64{}}
			l := newFixture(t, f)
			l.RefusalExpired = func(types.UID, types.UID) bool { return c.willing }
			l.wait(c.request)
			c.free(f)
			if got := len(l.requeued(c.change)) > 0; got != c.queued {
				t.Errorf("queued: %v, want %v", got, c.queued)
			}
		})
	}
}

func TestPendingSessionsAreDecidedOnAgainAfterAMemberChanged(t *testing.T) {
	f := &slots{}
	l := newFixture(t, f)
	for i := range 250 {
		l.wait(request(fmt.Sprint("s", i), "ann", fmt.Sprint("t", i%3)))
	}
	l.Wait(types.NamespacedName{Namespace: "desktops", Name: "home"}, "home", request("home", "ann", "t0").Rank, v1alpha1.ReasonHomeInUse)
	spread := func(c member.Change) (n, batches int) {
		l.events.record(c)
		for more := true; more; l.clock.Step(batchInterval) {
			more = l.evaluateBatch(l.enqueue)
			if l.active.Len() > 0 {
				batches++
			}
			n += l.active.Len()
			l.dismiss()
		}
		return n, batches
	}
	if n, _ := spread(capacityIn(here)); n > 0 {
		t.Errorf("%d are decided on again after a report of capacity", n)
	}
	if n, batches := spread(member.Change{Kind: member.MemberChanged, Member: "here", UID: here}); n != 250 || batches != 25 {
		t.Errorf("%d are decided on again in %d batches, want all 250, %d in each", n, batches, rechecksPerBatch)
	}
	if n, _ := spread(member.Change{Kind: member.MemberConnected, Member: "here", UID: here}); n != 250 {
		t.Errorf("%d are decided on again after a member was connected, want all 250", n)
	}
	of := request("s", "ann", "t1").Placement.Template
	if n, _ := spread(member.Change{Kind: member.MemberTemplates, Member: "here", UID: here, Templates: []placement.TemplateKey{of}}); n != 83 {
		t.Errorf("%d are decided on again after a member has evaluated %s, want the 83 that request it", n, of)
	}
}

// While members change one after the other, reasons are not written again and again; but what may
// let a session run is not delayed.
func TestReasonsWaitUntilMembersAreQuiet(t *testing.T) {
	for _, c := range []struct {
		name    string
		changes time.Duration // for how long a member changes each second
		want    time.Duration
	}{
		{"once", 0, quiet},
		{"all agents reconnect", 10 * time.Second, 10*time.Second + quiet},
		{"members flap", time.Hour, quietAtMost},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &slots{free: map[types.UID]map[string]int64{here: {}}}
			l := newFixture(t, f)
			l.wait(request("s", "ann", "browser"))
			lost := request("lost", "ann", "browser")
			f.verdict, lost.Failover = failover.Verdict{Due: true}, &Failover{From: there}
			l.wait(lost)
			for at := time.Duration(0); at <= 2*quietAtMost; at += time.Second {
				changes := at <= c.changes
				if changes {
					l.events.record(member.Change{Kind: member.MemberStream, Member: "here", UID: here})
				}
				l.evaluateBatch(l.enqueue)
				got := l.queued()
				if changes != slices.Contains(got, "lost") && at < c.want {
					t.Errorf("after %s, %v are decided on again", at, got)
				}
				if slices.Contains(got, "s") {
					if at != c.want {
						t.Errorf("the reason is updated after %s, want %s", at, c.want)
					}
					return
				}
				l.dismiss()
				l.clock.Step(time.Second)
			}
			t.Error("the reason is never updated")
		})
	}
}

// A decision with the same result after an event causes no reconcile.
func TestSessionIsReconciledForANewReasonOnly(t *testing.T) {
	f := &slots{free: map[types.UID]map[string]int64{here: {}}}
	l := newFixture(t, f)
	r := request("s", "ann", "browser")
	l.wait(r)
	l.requeued(member.Change{Kind: member.MemberChanged, Member: "here", UID: here})
	if got := l.decide(); len(got) > 0 || len(f.decided) != 2 {
		t.Errorf("enqueued %v after %d decisions, want none after two", got, len(f.decided))
	}
	r.Placement.Template.Name = "gpu" // this changes the message of the decision
	l.requeued(member.Change{Kind: member.MemberChanged, Member: "here", UID: here})
	if got := l.decide(); !slices.Equal(got, []string{"s"}) {
		t.Errorf("enqueued %v", got)
	}
}

// Capacity is reported between the decision and the reconcile that reads it.
func TestEventBeforeTheAnswerIsReadIsNotLost(t *testing.T) {
	f := &slots{free: map[types.UID]map[string]int64{here: {}}}
	l := newFixture(t, f)
	r := request("s", "ann", "browser")
	l.request(r)
	l.decide()
	f.free[here]["browser"] = 1
	l.requeued(capacityIn(here))
	if a, ok := l.request(r); !ok || a.Placed {
		t.Fatalf("answered %t: %+v", ok, a)
	}
	if got := l.decide(); !slices.Equal(got, []string{"s"}) {
		t.Fatalf("enqueued %v, want the session that the capacity is for", got)
	}
	l.placed(r)
}

func TestSessionThatIsNoLongerPendingIsNotQueued(t *testing.T) {
	f := &slots{free: map[types.UID]map[string]int64{here: {}}}
	l := newFixture(t, f)
	r := request("s", "ann", "browser")
	l.wait(r)
	home := request("home", "ann", "browser")
	l.Wait(home.Session, home.Placement.UID, home.Rank, v1alpha1.ReasonHomeInUse)
	l.Done(home.Session, false, nil)
	f.free[here]["browser"] = 5
	if got := l.requeued(capacityIn(here)); !slices.Equal(got, []string{"s"}) {
		t.Errorf("queued %v: capacity does not help a session that waits for a home", got)
	}
	l.dismiss()
	l.Done(r.Session, false, nil) // a reconcile without a request
	if got := l.requeued(capacityIn(here)); len(got) > 0 {
		t.Errorf("queued %v, which is no longer pending", got)
	}
	if len(l.pending.classes) > 0 || len(l.pending.perUser) > 0 {
		t.Error("a class without sessions is remembered")
	}
	reasons, oldest := l.Waiting()
	if diff := cmp.Diff(map[string]int{v1alpha1.ReasonHomeInUse: 1}, reasons); diff != "" || !oldest.Equal(home.Rank.Since) {
		t.Errorf("oldest since %s, reasons (-want +got):\n%s", oldest, diff)
	}
}

func TestEquivalenceClassesCoverWhatDecidesTheFit(t *testing.T) {
	base := request("s", "ann", "browser").class()
	for name, change := range map[string]func(*Request){
		"the template's revision": func(r *Request) { r.Placement.Template.Revision = "r2" },
		"namespace":               func(r *Request) { r.Placement.Namespace = "other" },
		"resources":               func(r *Request) { r.Placement.Resources = placement.Resources{"cpu": 1000} },
		"policy":                  func(r *Request) { r.Placement.PolicyName = "gold" },
		"regions":                 func(r *Request) { r.Placement.RequiredRegions = []string{"eu"} },
		"selector": func(r *Request) {
			r.Placement.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"tolerations": func(r *Request) { r.Placement.ClusterTolerations = []corev1.Toleration{{Key: "gpu"}} },
		"home":        func(r *Request) { r.Placement.Home = &v1alpha1.ClusterRef{UID: here} },
		"refusals":    func(r *Request) { r.Placement.Refused = map[types.UID]string{here: "x"} },
		"refusals of free slots alone": func(r *Request) {
			r.Placement.Refused, r.Placement.RefusedFree = map[types.UID]string{here: "x"}, sets.New(here)
		},
		"failover":    func(r *Request) { r.Placement.Failover = true },
		"free slots":  func(r *Request) { r.Placement.FreeOnly = true },
		"where it is": func(r *Request) { r.Resume = &Resume{Member: v1alpha1.ClusterRef{UID: here}} },
	} {
		if request("s", "ann", "browser", change).class() == base {
			t.Errorf("%s makes no class of its own", name)
		}
	}
	refused := func(r *Request) { r.Placement.Refused = map[types.UID]string{here: "x"} }
	free := func(r *Request) { r.Placement.RefusedFree = sets.New(here) }
	if request("s", "ann", "browser", refused).class() == request("s", "ann", "browser", refused, free).class() {
		t.Error("whether a member may add a node after its refusal makes no class of its own")
	}
	same := request("n", "ben", "browser", func(r *Request) {
		r.Placement.Priority, r.Placement.PreferredRegions = 9, []string{"eu"}
		perUser(r)
		r.Placement.PolicyName = ""
	})
	if same.class() != base {
		t.Error("the session's user, or its preferred regions, makes a class")
	}
	if request("s", "ann", "browser", perUser).cappedClass() == request("n", "ben", "browser", perUser).cappedClass() {
		t.Error("two users that have reached the cap of their policy are one class")
	}
}

// BenchmarkEvent measures one capacity report with 5,000 pending sessions of 10 classes:
// what matters is the number of lookups.
func BenchmarkEvent(b *testing.B) {
	for _, perClass := range []int64{0, 1, 100} {
		b.Run(fmt.Sprintf("capacity for %d of each class", perClass), func(b *testing.B) {
			free := map[string]int64{}
			f := &slots{free: map[types.UID]map[string]int64{here: free}}
			s := New(Options{Cache: f, Members: f, Clock: newFixture(nil, f).clock})
			l := &fixture{Scheduler: s, fleet: f}
			enqueue := func(types.NamespacedName) {}
			for i := range 5000 {
				r := request(fmt.Sprint("s", i), fmt.Sprint("u", i%700), fmt.Sprint("t", i%10), priority(int32(i%3)))
				s.Decide(r)
				s.Step(enqueue)
				s.Decide(r)
				s.Done(r.Session, false, nil)
			}
			for i := range 10 {
				free[fmt.Sprint("t", i)] = perClass
			}
			f.lookups, f.of = 0, nil
			b.ReportAllocs()
			b.ResetTimer()
			called := 0
			for range b.N {
				l.events.record(capacityIn(here))
				s.evaluateBatch(enqueue)
				b.StopTimer()
				called += s.active.Len()
				l.dismiss()
				b.StartTimer()
			}
			b.ReportMetric(float64(f.lookups)/float64(b.N), "lookups/event")
			b.ReportMetric(float64(called)/float64(b.N), "queued/event")
		})
	}
}
