package index

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// indexer passes the indexes to a fake client.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	i.WithIndex(o, field, extract)
	return nil
}

func TestASessionIsFoundByItsAssignmentWhateverItsName(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	names := []string{"alice", "a", "alice.laptop", "1st", strings.Repeat("long-", 30) + "name", strings.Repeat("x", 52), strings.Repeat("x", 53)}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for i, name := range names {
		s := &v1alpha1.VDISession{}
		s.Namespace, s.Name, s.UID = "desktops", name, types.UID(strings.Repeat("u", i+1))
		builder.WithObjects(s)
	}
	if err := Setup(t.Context(), indexer{builder}); err != nil {
		t.Fatal(err)
	}
	c := builder.Build()
	for i, name := range names {
		key := types.NamespacedName{Namespace: "desktops", Name: v1alpha1.AssignmentName(name, types.UID(strings.Repeat("u", i+1)))}
		if s, err := ByAssignment(t.Context(), c, key); err != nil || s == nil || s.Name != name {
			t.Errorf("the session of %s is %v (%v), want %s", key.Name, s, err, name)
		}
		key.Name = v1alpha1.AssignmentName(name, "of an earlier session of this name")
		if s, err := ByAssignment(t.Context(), c, key); err != nil || s != nil {
			t.Errorf("the session of %s is %v (%v), although that is a later one", key.Name, s, err)
		}
	}
}
