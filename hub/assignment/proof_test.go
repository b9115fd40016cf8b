package assignment

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// proofsOf returns Proofs with a key that repeats one letter.
func proofsOf(letter byte) *Proofs {
	key := bytes.Repeat([]byte{letter}, proofKeyBytes)
	p := &Proofs{}
	p.key.Store(&key)
	return p
}

// Proofs are stored in members: a change of their computation would invalidate all of them.
func TestAProofStaysTheSame(t *testing.T) {
	const want = "pr5XML5XaXr_-VsdEPozoGlpQfEACqiFWje-JHqOTJI"
	if got := proofsOf('k').of(sessiontest.Here, "uid-session", 5); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTheProofOfATermIsOfItsMemberAndTermAlone(t *testing.T) {
	const want = "CisR0emXbSPqhF5cs4-bnnhobzv-leEszj_zQDGbsFM"
	p := proofsOf('k')
	got := p.Term(sessiontest.Here, 5)
	if got != want {
		t.Errorf("got %s, want %s: it is stored in members", got, want)
	}
	for name, other := range map[string]string{
		"another term": p.Term(sessiontest.Here, 6), "another member": p.Term(sessiontest.Here+"2", 5), "another key": proofsOf('l').Term(sessiontest.Here, 5),
		"a placement": p.of(sessiontest.Here, "", 5), "a placement of an empty member": p.of("", sessiontest.Here, 5),
	} {
		if other == got {
			t.Errorf("%s has the same proof", name)
		}
	}
}

func TestTheKeyIsMadeOnceAndReadByAll(t *testing.T) {
	api := fake.NewClientBuilder().Build()
	var proofs [2]string
	for i := range proofs {
		p := &Proofs{Client: api, Live: api, Namespace: "vdi-system"}
		for range 2 {
			if err := p.Prepare(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		proofs[i] = p.of(sessiontest.Here, "uid-session", 5)
	}
	if proofs[0] != proofs[1] || len(proofs[0]) > 64 {
		t.Errorf("one leader's proof is %s, the next one's %s", proofs[0], proofs[1])
	}
}

func TestTheKeyOfTheFirstWriterCounts(t *testing.T) {
	quicker := placementKey(bytes.Repeat([]byte{'k'}, proofKeyBytes))
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := c.Create(ctx, quicker); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	p := &Proofs{Client: api, Live: api, Namespace: "vdi-system"}
	if err := p.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.of(sessiontest.Here, "uid-session", 5) != proofsOf('k').of(sessiontest.Here, "uid-session", 5) {
		t.Error("its own key counts, which no other hub has")
	}
}

func TestAKeyThatCannotBeUsedIsNotTouched(t *testing.T) {
	api := fake.NewClientBuilder().WithObjects(placementKey([]byte("short"))).Build()
	p := &Proofs{Client: api, Live: api, Namespace: "vdi-system"}
	err := p.Prepare(t.Context())
	if err == nil || !strings.Contains(err.Error(), "restore it from a backup") {
		t.Errorf("error %v does not name the remedy", err)
	}
	stored := &corev1.Secret{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(placementKey(nil)), stored); err != nil || string(stored.Data[v1alpha1.PlacementKey]) != "short" {
		t.Errorf("stored %q, %v", stored.Data, err)
	}
}

func TestNoKeyIsMadeWhereOneMayBeThatCannotBeRead(t *testing.T) {
	away := errors.New("away")
	writes := 0
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return away
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			writes++
			return nil
		},
	}).Build()
	p := &Proofs{Client: api, Live: api, Namespace: "vdi-system"}
	if err := p.Prepare(t.Context()); !errors.Is(err, away) || writes != 0 {
		t.Errorf("error %v, %d writes", err, writes)
	}
}

func placementKey(key []byte) *corev1.Secret {
	s := &corev1.Secret{Data: map[string][]byte{v1alpha1.PlacementKey: key}}
	s.Namespace, s.Name = "vdi-system", v1alpha1.PlacementKeySecret
	return s
}
