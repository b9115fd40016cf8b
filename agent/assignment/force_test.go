package assignment

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func podOf(uid string, finalizers ...string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: "desk-" + uid, Finalizers: finalizers,
		Labels: map[string]string{v1alpha1.LabelSessionUID: uid}}}
}

func (b *fixture) forced(uid string) (reason string, yes bool) {
	reason, yes = b.get(uid).Annotations[v1alpha1.AnnotationForceCleanup]
	return reason, yes
}

func TestForcedWithdrawal(t *testing.T) {
	t.Run("marks the assignment before it is deleted", func(t *testing.T) {
		b := newFixture(t)
		b.Put(order(assignment("u1", 1, "ada")))
		b.expect("STORED e1")
		b.Put(forceOrder("u1", 1))
		b.expect("STORED e1")
		if reason, _ := b.forced("u1"); reason != forcedByHub || b.get("u1").DeletionTimestamp.IsZero() {
			t.Errorf("reason %q of %+v", reason, b.get("u1").ObjectMeta)
		}
		b.release("u1")
		b.expect("STOPPED e1")
	})
	t.Run("marks one that is being deleted already, and keeps an operator's own annotation", func(t *testing.T) {
		b := newFixture(t)
		b.Put(order(assignment("u1", 1, "ada")))
		b.Put(order(assignment("u2", 1, "bob")))
		b.expect("STORED e1", "STORED e1")
		b.Put(withdrawOrder("u1", 1))
		b.expect("STORED e1")
		if _, yes := b.forced("u1"); yes {
			t.Fatal("forced without an order")
		}
		own := b.get("u2")
		own.Annotations[v1alpha1.AnnotationForceCleanup] = "node burnt"
		if err := b.live.Update(t.Context(), own); err != nil {
			t.Fatal(err)
		}
		b.Put(forceOrder("u1", 1))
		b.Put(withdrawOrder("u1", 1)) // A repetition takes nothing back.
		b.Put(forceOrder("u2", 1))
		b.run()
		if _, yes := b.forced("u1"); !yes {
			t.Error("not marked")
		}
		if reason, _ := b.forced("u2"); reason != "node burnt" {
			t.Errorf("reason %q", reason)
		}
	})
	t.Run("does not change a higher epoch", func(t *testing.T) {
		b := newFixture(t, podOf("u1"))
		b.Put(order(assignment("u1", 2, "ada")))
		b.expect("STORED e2")
		b.Put(forceOrder("u1", 1))
		b.expect("STOPPED e1")
		if _, yes := b.forced("u1"); yes || !b.hasPod("u1") {
			t.Error("the higher epoch was touched")
		}
	})
	t.Run("takes the Pods of an assignment that is gone, and no others", func(t *testing.T) {
		b := newFixture(t, podOf("u1"), podOf("u2"))
		b.Put(withdrawOrder("u1", 1))
		b.expect("STORED e1")
		if !b.hasPod("u1") {
			t.Fatal("removed without force")
		}
		b.Put(forceOrder("u1", 1))
		b.expect("STOPPED e1")
		if b.hasPod("u1") || !b.hasPod("u2") {
			t.Error("the wrong Pods are left")
		}
	})
	t.Run("takes a Pod that waits for its kubelet to report the end", func(t *testing.T) {
		b := newFixture(t, podOf("u1", v1alpha1.PodFinalizer))
		b.Put(withdrawOrder("u1", 1))
		b.expect("STORED e1")
		b.Put(forceOrder("u1", 1))
		b.expect("STOPPED e1")
		if b.hasPod("u1") {
			t.Error("its finalizer keeps it")
		}
	})
	t.Run("is not Stopped while the API server has a Pod", func(t *testing.T) {
		pod := podOf("u1", "example.com/keep")
		b := newFixture(t, pod)
		b.Put(forceOrder("u1", 1))
		b.expect("STORED e1")
		if err := b.live.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
			t.Fatal(err)
		}
		b.work(t.Context()) // Blocks until it is processed again.
		b.expect("STOPPED e1")
	})
}

func (b *fixture) hasPod(uid string) bool {
	return b.live.Get(b.t.Context(), client.ObjectKeyFromObject(podOf(uid)), &corev1.Pod{}) == nil
}

func TestForcedWithdrawalIsNotPutOnAHigherEpochThatCameMeanwhile(t *testing.T) {
	b := newFixture(t)
	b.Put(order(assignment("u1", 1, "ada")))
	b.expect("STORED e1")
	b.Client = behind{b.live, b.get("u1")}
	b.edit("u1", func(a *v1alpha1.SessionAssignment) { a.Spec.Epoch = 2 })
	b.Put(forceOrder("u1", 1))
	b.expect()
	if _, yes := b.forced("u1"); yes || !b.get("u1").DeletionTimestamp.IsZero() {
		t.Error("the higher epoch was touched")
	}
	b.Client = b.live
	b.work(t.Context()) // Blocks until it is processed again.
	b.expect("STOPPED e1")
}

// behind is a cache that shows an assignment as it was.
type behind struct {
	client.Client
	was *v1alpha1.SessionAssignment
}

func (c behind) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if a, ok := o.(*v1alpha1.SessionAssignment); ok {
		c.was.DeepCopyInto(a)
		return nil
	}
	return c.Client.Get(ctx, key, o, opts...)
}
