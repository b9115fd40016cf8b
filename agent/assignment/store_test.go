package assignment

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/lru"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

func TestStoresAnAssignmentWithItsLabelsAndFinalizer(t *testing.T) {
	b := newFixture(t)
	b.Put(order(assignment("u1", 1, "ada")))
	b.expect("STORED e1")
	got := b.get("u1")
	if got == nil || got.Spec.User != "ada" || got.Finalizers[0] != v1alpha1.AssignmentFinalizer ||
		got.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedBy || got.Labels[v1alpha1.LabelSessionUID] != "u1" ||
		got.Annotations[v1alpha1.AnnotationSpecHash] != convert.SpecHash(&got.Spec) {
		t.Errorf("stored: %+v", got)
	}
	version := got.ResourceVersion
	b.Put(order(assignment("u1", 1, "ada")))
	b.expect("STORED e1")
	if b.get("u1").ResourceVersion != version {
		t.Error("the same order was written again")
	}
	b.Put(order(assignment("u1", 2, "bob")))
	b.expect("STORED e2")
	if got := b.get("u1"); got.Spec.Epoch != 2 || got.Spec.User != "bob" {
		t.Errorf("revised: %+v", got.Spec)
	}
}

func TestAProofIsStoredOnceAndReported(t *testing.T) {
	b := newFixture(t)
	withProof := func(epoch int64, proof string) *v1alpha1.SessionAssignment {
		a := assignment("u1", epoch, "ada")
		a.Spec.Proof = proof
		return a
	}
	for _, c := range []struct {
		name   string
		order  *v1alpha1.SessionAssignment
		want   string
		writes bool
	}{
		{"the first", withProof(1, "proof-1"), "proof-1", true},
		{"the same again", withProof(1, "proof-1"), "proof-1", false},
		{"of a hub with another key", withProof(1, "other-1"), "other-1", true},
		{"of the next epoch", withProof(2, "proof-2"), "proof-2", true},
	} {
		version := ""
		if held := b.get("u1"); held != nil {
			version = held.ResourceVersion
		}
		b.Put(order(c.order))
		b.expect(fmt.Sprintf("STORED e%d", c.order.Spec.Epoch))
		got := b.get("u1")
		if reported := report(got).GetProof(); got.Spec.Proof != c.want || reported != c.want {
			t.Errorf("%s: stored %q, reported %q, want %q", c.name, got.Spec.Proof, reported, c.want)
		}
		if writes := got.ResourceVersion != version; writes != c.writes {
			t.Errorf("%s: written %t, want %t", c.name, writes, c.writes)
		}
		if h := report(got).GetSpecHash(); h == editedHash {
			t.Errorf("%s: it is reported as an edit by hand", c.name)
		}
	}
}

func TestRefusesPermanently(t *testing.T) {
	for name, tc := range map[string]struct {
		fail    error
		prepare func(*fixture)
		order   *v1alpha1.SessionAssignment
		want    string
	}{
		"a lower epoch than is stored": {
			prepare: func(b *fixture) {
				b.Put(order(assignment("u1", 3, "ada")))
				b.run()
				b.pending.minEpochs = lru.New(1)
			},
			order: assignment("u1", 2, "ada"), want: "REFUSED e2 StaleEpoch"},
		"a lower epoch than was seen": {
			prepare: func(b *fixture) { b.pending.raise("u1", 3) },
			order:   assignment("u1", 2, "ada"), want: "REFUSED e2 StaleEpoch"},
		"an epoch that was withdrawn": {
			prepare: func(b *fixture) { b.Put(withdrawOrder("u1", 2)); b.run() },
			order:   assignment("u1", 2, "ada"), want: "REFUSED e2 StaleEpoch"},
		"a namespace that is not admitted": {
			prepare: func(b *fixture) {
				_ = b.live.Create(b.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}})
			},
			order: inNamespace("plain"), want: "REFUSED e1 NamespaceNotAdmitted"},
		"a namespace that is absent": {order: inNamespace("none"), want: "REFUSED e1 NamespaceNotAdmitted"},
		"a system namespace, whatever its label": {
			prepare: func(b *fixture) {
				_ = b.live.Create(b.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
					Name: "kube-system", Labels: map[string]string{v1alpha1.LabelAdmitSessions: "true"}}})
			},
			order: inNamespace("kube-system"), want: "REFUSED e1 NamespaceNotAdmitted"},
		"the agent's own namespace, whatever its label": {
			prepare: func(b *fixture) {
				_ = b.live.Create(b.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
					Name: "agents", Labels: map[string]string{v1alpha1.LabelAdmitSessions: "true"}}})
			},
			order: inNamespace("agents"), want: "REFUSED e1 NamespaceNotAdmitted"},
		"what fits no node": {
			prepare: func(b *fixture) { b.Capacity = lackingCapacity("no node has enough cpu") },
			order:   assignment("u1", 1, "ada"), want: "REFUSED e1 NoCapacity"},
		"what the API server finds invalid": {
			fail:  apierrors.NewInvalid(schema.GroupKind{}, "x", nil),
			order: assignment("u1", 1, "ada"), want: "REFUSED e1 Invalid"},
		"what the API server forbids": {
			fail:  apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("quota")),
			order: assignment("u1", 1, "ada"), want: "REFUSED e1 Invalid"},
		"a name that another session has": {
			prepare: func(b *fixture) {
				other := assignment("u1", 1, "ada")
				other.Spec.Session.UID = "other"
				_ = b.live.Create(b.t.Context(), other)
			},
			order: assignment("u1", 1, "ada"), want: "REFUSED e1 Invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			if tc.prepare != nil {
				tc.prepare(b)
				b.run()
			}
			b.fail = tc.fail
			b.Put(order(tc.order))
			b.expect(tc.want)
			if len(b.pending.slots) != 0 {
				t.Errorf("%d slots left", len(b.pending.slots))
			}
		})
	}
}

func inNamespace(ns string) *v1alpha1.SessionAssignment {
	a := assignment("u1", 1, "ada")
	a.Namespace = ns
	return a
}

func TestRefusesUnreadableOrders(t *testing.T) {
	b := newFixture(t)
	o := order(assignment("u1", 1, "ada"))
	o.GetAssign().Desktop.Resources = map[string]string{"cpu": "many"}
	b.Put(o)
	b.expect("REFUSED e1 Invalid")
}

func TestRetriesWhileTheAPIServerIsUnavailable(t *testing.T) {
	b := newFixture(t)
	b.fail = apierrors.NewServiceUnavailable("away")
	b.Put(order(assignment("u1", 1, "ada")))
	b.expect()
	b.Put(order(assignment("u1", 1, "bob")))
	b.expect()
	b.fail = nil
	deadline := time.Now().Add(10 * time.Second)
	for b.get("u1") == nil && time.Now().Before(deadline) {
		b.work(t.Context()) // Blocks until the backoff has passed.
	}
	b.expect("STORED e1")
	if got := b.get("u1"); got.Spec.User != "bob" {
		t.Errorf("stored %q, want the newest", got.Spec.User)
	}
}

func TestDoesNotRefuseAChangeOfWhatRuns(t *testing.T) {
	b := newFixture(t)
	b.Put(order(assignment("u1", 1, "ada")))
	b.expect("STORED e1")
	b.Capacity = lackingCapacity("no node has enough cpu")
	b.Put(order(assignment("u1", 1, "carol")))
	b.expect("STORED e1")
	b.fail = apierrors.NewInvalid(schema.GroupKind{}, "x", nil)
	b.Put(order(assignment("u1", 1, "bob")))
	b.expect()
	b.Put(order(assignment("u1", 2, "bob")))
	b.expect("REFUSED e2 Invalid")
}

func TestWithdrawal(t *testing.T) {
	t.Run("is Stored at once, and Stopped when the assignment is gone", func(t *testing.T) {
		b := newFixture(t)
		b.Put(order(assignment("u1", 1, "ada")))
		b.expect("STORED e1")
		b.Put(withdrawOrder("u1", 1))
		b.expect("STORED e1")
		if a := b.get("u1"); a == nil || a.DeletionTimestamp.IsZero() {
			t.Fatal("not being deleted")
		}
		b.release("u1")
		b.expect("STOPPED e1")
	})
	t.Run("of what is not there is Stopped at once", func(t *testing.T) {
		b := newFixture(t)
		b.Put(withdrawOrder("u1", 4))
		b.expect("STOPPED e4")
	})
	t.Run("is not Stopped while a Pod of the session is left", func(t *testing.T) {
		pod := podOf("u1")
		b := newFixture(t, pod)
		b.Put(withdrawOrder("u1", 1))
		b.expect("STORED e1")
		if err := b.live.Delete(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		b.work(t.Context()) // Blocks until it is processed again.
		b.expect("STOPPED e1")
	})
	t.Run("does not change a higher epoch", func(t *testing.T) {
		b := newFixture(t)
		b.Put(order(assignment("u1", 2, "ada")))
		b.expect("STORED e2")
		b.Put(withdrawOrder("u1", 1))
		b.expect("STOPPED e1")
		if a := b.get("u1"); a == nil || !a.DeletionTimestamp.IsZero() {
			t.Error("the higher epoch was touched")
		}
	})
	t.Run("drops an assignment that waits to be stored", func(t *testing.T) {
		b := newFixture(t)
		b.Put(order(assignment("u1", 1, "ada")))
		b.Put(withdrawOrder("u1", 1))
		b.expect("STOPPED e1")
		if b.get("u1") != nil {
			t.Error("stored nevertheless")
		}
	})
}

func TestTheNextEpochWaitsUntilTheLastIsGone(t *testing.T) {
	b := newFixture(t)
	b.Put(order(assignment("u1", 1, "ada")))
	b.expect("STORED e1")
	b.Put(withdrawOrder("u1", 1))
	b.Put(order(assignment("u1", 2, "ada")))
	b.expect("STORED e1")
	if a := b.get("u1"); a.Spec.Epoch != 1 {
		t.Fatalf("epoch %d is there while 1 is being removed", a.Spec.Epoch)
	}
	b.release("u1")
	b.expect("STOPPED e1", "STORED e2")
	if a := b.get("u1"); a.Spec.Epoch != 2 {
		t.Errorf("epoch %d", a.Spec.Epoch)
	}
}

func TestAnAssignmentDeletedByHandIsStoppedWithoutAnOrder(t *testing.T) {
	b := newFixture(t)
	b.Put(order(assignment("u1", 1, "ada")))
	b.expect("STORED e1")
	if err := b.live.Delete(t.Context(), b.get("u1")); err != nil {
		t.Fatal(err)
	}
	b.release("u1")
	b.expect("STOPPED e1")
	b.Put(order(assignment("u1", 1, "ada")))
	b.expect("REFUSED e1 StaleEpoch")
}

// Refused means that nothing of the epoch runs, and the hub places the session elsewhere
// at once: it is no answer while the Pod still stops.
func TestAnEpochThatStillStopsIsNotRefused(t *testing.T) {
	for name, end := range map[string]func(*fixture){
		"while its assignment is being deleted by hand": func(b *fixture) {
			_ = b.live.Delete(b.t.Context(), b.get("u1"))
		},
		"while it is withdrawn": func(b *fixture) { b.Put(withdrawOrder("u1", 1)); b.run() },
		"while its Pod is left, its finalizer removed by hand": func(b *fixture) {
			if err := b.live.Create(b.t.Context(), podOf("u1")); err != nil {
				b.t.Fatal(err)
			}
			_ = b.live.Delete(b.t.Context(), b.get("u1"))
			b.release("u1")
			b.work(b.ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			b.Put(order(assignment("u1", 1, "ada")))
			b.expect("STORED e1")
			end(b)
			b.results.take()
			b.Put(order(assignment("u1", 1, "ada"))) // a reconnect has it sent again
			b.expect()
			if b.hasPod("u1") {
				if err := b.live.Delete(t.Context(), podOf("u1")); err != nil {
					t.Fatal(err)
				}
				b.queue.Add("u1")
			} else {
				b.release("u1")
			}
			b.expect("STOPPED e1")
			b.Put(order(assignment("u1", 1, "ada")))
			b.expect("REFUSED e1 StaleEpoch")
		})
	}
}

func TestReportShowsWhatIsBeingDeletedAsStopping(t *testing.T) {
	a := assignment("u1", 1, "ada")
	if got := report(a).Status.State; got != "Active" {
		t.Errorf("state %s", got)
	}
	now := metav1.Now()
	a.DeletionTimestamp, a.Status.State = &now, v1alpha1.AssignmentActive
	if got := report(a).Status.State; got != "Stopping" {
		t.Errorf("state %s", got)
	}
}

func TestMinEpochsNeverFallAndAreBounded(t *testing.T) {
	p := &pending{minEpochs: lru.New(2)}
	p.raise("a", 5)
	p.raise("a", 3)
	if p.minEpoch("a") != 5 {
		t.Error("it fell")
	}
	p.raise("b", 1)
	p.raise("c", 1)
	if p.minEpoch("a") != 0 || p.minEpoch("b") != 1 || p.minEpochs.Len() != 2 {
		t.Errorf("%d, %d, %d", p.minEpoch("a"), p.minEpoch("b"), p.minEpochs.Len())
	}
}
