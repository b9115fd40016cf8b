package keys

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// replica returns the keeper of a replica at a time.
func replica(c client.Client, now time.Time) *Keeper {
	return &Keeper{Client: c, Live: c, Namespace: "vdi-system", Clock: clocktesting.NewFakePassiveClock(now)}
}

// usedBy returns the ID of the key that a replica encrypts with.
func usedBy(t *testing.T, k *Keeper) string {
	t.Helper()
	id, _, err := k.Current()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// Both have read that there are no keys before one of them stores the first.
func TestReplicasThatStartAtOnceHaveTheSameKeys(t *testing.T) {
	store := fake.NewClientBuilder().Build()
	first := replica(store, monday)
	var raced bool
	slow := interceptor.NewClient(store, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if !raced {
				raced = true
				if err := first.Prepare(ctx); err != nil {
					t.Error(err)
				}
			}
			return c.Create(ctx, o, opts...)
		},
	})
	second := replica(slow, monday)
	if err := second.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a, b := usedBy(t, first), usedBy(t, second); !raced || a != b {
		t.Errorf("one uses key %s, the other %s", a, b)
	}
}

func TestKeysAreRotated(t *testing.T) {
	store := fake.NewClientBuilder().Build()
	k := replica(store, monday)
	if err := k.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := usedBy(t, k)
	k.Clock = clocktesting.NewFakePassiveClock(monday.Add(rotateEvery))
	result, err := k.Reconcile(t.Context(), ctrl.Request{})
	if err != nil || result.RequeueAfter <= 0 {
		t.Fatalf("%v, %v", result, err)
	}
	k.Clock = clocktesting.NewFakePassiveClock(monday.Add(rotateEvery + lead))
	if second := usedBy(t, k); second == first {
		t.Error("a key is used for more than a week")
	}
	if _, ok := k.Key(first); !ok {
		t.Error("a key is not accepted any more, an hour after its successor is in use")
	}
}

// Whoever deletes the Secret logs everybody out.
func TestADeletedSecretMeansOtherKeys(t *testing.T) {
	store := fake.NewClientBuilder().Build()
	k := replica(store, monday)
	if err := k.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := usedBy(t, k)
	if err := store.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: SecretName}}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	if _, ok := k.Key(first); ok || usedBy(t, k) == first {
		t.Error("a key of the deleted Secret is accepted")
	}
}
