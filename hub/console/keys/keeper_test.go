package keys

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/visit"
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

// A door that has what the hub sends to it accepts the passes of every replica, and none of a deleted Secret.
func TestPassesAreSignedWithTheKeysOfDoors(t *testing.T) {
	store := fake.NewClientBuilder().Build()
	k := replica(store, monday)
	if err := k.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	public := func() visit.Keys {
		secret := &corev1.Secret{}
		if err := store.Get(t.Context(), client.ObjectKey{Namespace: "vdi-system", Name: SecretName}, secret); err != nil {
			t.Fatal(err)
		}
		if secret.Labels[v1alpha1.LabelSecret] != v1alpha1.SecretConsoleKeys {
			t.Errorf("the hub does not find the keys: their Secret has the labels %v", secret.Labels)
		}
		keys, err := visit.ParseKeys(secret.Data[v1alpha1.ConsolePublicKeys])
		if err != nil {
			t.Fatal(err)
		}
		return keys
	}
	door := public()
	pass := visit.Pass{SessionUID: "uid", Epoch: 1, User: "alice", Challenge: visit.Challenge("nonce"), IssuedAt: monday.Unix(), Expires: monday.Add(time.Hour).Unix()}
	token, err := k.Sign(pass)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := door.Verify(token, "nonce", monday); err != nil || got != pass {
		t.Errorf("%+v, %v", got, err)
	}
	if err := store.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: SecretName}}); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Reconcile(t.Context(), ctrl.Request{}); err != nil {
		t.Fatal(err)
	}
	if _, err := public().Verify(token, "nonce", monday); err == nil {
		t.Error("a pass of the deleted Secret is accepted")
	}
}

// What a console without doors has stored gets the keys of passes.
func TestARingWithoutKeysOfPasses(t *testing.T) {
	logins, _ := sequence{}.rotated(monday, newKey)
	stored, err := json.Marshal(map[string]any{"login": logins})
	if err != nil {
		t.Fatal(err)
	}
	store := fake.NewClientBuilder().WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: SecretName}, Data: map[string][]byte{entry: stored},
	}).Build()
	k := replica(store, monday)
	if err := k.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, ok := k.Key(logins[0].ID); !ok {
		t.Error("its logins are over")
	}
	if _, err := k.Sign(visit.Pass{}); err != nil {
		t.Error(err)
	}
}
