package hub

import (
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// lookups counts what a mapper is asked.
type lookups struct {
	meta.RESTMapper
	asked int
	err   error
}

func (l *lookups) RESTMapping(kind schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	if l.asked++; l.err != nil {
		return nil, l.err
	}
	return &meta.RESTMapping{GroupVersionKind: kind.WithVersion("v1")}, nil
}

func TestResourcesOfKindsAreRemembered(t *testing.T) {
	t.Parallel()
	asked := &lookups{err: errors.New("not installed yet")}
	m := &mapper{RESTMapper: asked}
	role, binding := schema.GroupKind{Group: "rbac", Kind: "Role"}, schema.GroupKind{Group: "rbac", Kind: "RoleBinding"}
	if _, err := m.RESTMapping(role, "v1"); err == nil {
		t.Fatal("a failure is no result")
	}
	asked.err = nil
	for _, kind := range []schema.GroupKind{role, binding, role, binding} {
		found, err := m.RESTMapping(kind, "v1")
		if err != nil || found.GroupVersionKind.Kind != kind.Kind {
			t.Fatalf("%s is %v, %v", kind, found, err)
		}
	}
	if asked.asked != 3 {
		t.Errorf("the mapper was asked %d times, want 3: the failure, and once for each kind", asked.asked)
	}
	_, _ = m.RESTMapping(role)
	_, _ = m.RESTMapping(role)
	if asked.asked != 5 {
		t.Error("the preferred version is remembered")
	}
}
