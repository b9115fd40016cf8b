package link

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/agent/objects"
)

func TestTermsSurviveARestart(t *testing.T) {
	writes := 0
	var fail error
	write := func(err *error) error { writes++; return *err }
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return errors.Join(write(&fail), c.Create(ctx, o, opts...))
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := write(&fail); err != nil {
				return err
			}
			return c.Update(ctx, o, opts...)
		},
	}).Build()
	process := func() *ConfigMapTerms {
		return &ConfigMapTerms{Store: objects.Store{Live: api, Client: api, Namespace: "vdi-system"}}
	}
	begin := func(p *ConfigMapTerms, wantTerm, wantHighest int64) {
		t.Helper()
		term, highest, err := p.Begin(t.Context())
		if err != nil || term != wantTerm || highest.Term != wantHighest {
			t.Errorf("begin: %d, %v, %v; want %d, %d", term, highest, err, wantTerm, wantHighest)
		}
	}
	observe := func(p *ConfigMapTerms, term int64, wantWrites int) {
		t.Helper()
		writes = 0
		if err := p.Observe(t.Context(), HubTerm{Term: term}); err != nil || writes != wantWrites {
			t.Errorf("observing %d: %v, %d writes; want %d", term, err, writes, wantWrites)
		}
	}
	first := process()
	begin(first, 1, 0)
	observe(first, 7, 1)
	observe(first, 7, 0)
	observe(first, 6, 0)
	fail = fmt.Errorf("away: %w", context.DeadlineExceeded)
	if err := first.Observe(t.Context(), HubTerm{Term: 8}); err == nil {
		t.Error("a term that was not written counts as remembered")
	}
	fail = nil
	observe(first, 8, 1)

	begin(process(), 2, 8)

	// A hub begins to sign terms: its proof is stored with the term.
	signed := process()
	if _, _, err := signed.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, term := range []HubTerm{{8, "proof"}, {8, ""}, {7, "another"}} {
		if err := signed.Observe(t.Context(), term); err != nil {
			t.Error(err)
		}
	}
	if _, highest, err := process().Begin(t.Context()); err != nil || highest != (HubTerm{8, "proof"}) {
		t.Errorf("the next process has %v, %v", highest, err)
	}

	// An invalid term does not prevent the agent from starting.
	state := &corev1.ConfigMap{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "vdi-system", Name: TermsConfigMap}, state); err != nil {
		t.Fatal(err)
	}
	state.Data = map[string]string{keyAgentTerm: "many"}
	if err := api.Update(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	begin(process(), 1, 0)
}
