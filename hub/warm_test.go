package hub

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// A standby has all numerous objects before it leads.
func TestStandbyIsWarm(t *testing.T) {
	o := Options{Namespace: "vdi-system", SessionOptions: SessionOptions{UserRoles: true}}
	informers := &informertest.FakeInformers{Scheme: Scheme()}
	if err := warm(t.Context(), informers, o); err != nil {
		t.Fatal(err)
	}
	for kind := range cached(o) {
		switch kind.(type) {
		case *v1alpha1.VDISession: // index.Setup
		case *v1alpha1.PlacementReview: // few at a time
		default:
			gvk, err := apiutil.GVKForObject(kind, Scheme())
			if err != nil {
				t.Fatal(err)
			}
			if informers.InformersByGVK[gvk] == nil {
				t.Errorf("a new leader lists all %s first", gvk.Kind)
			}
		}
	}
	without := &informertest.FakeInformers{Scheme: Scheme()}
	o.UserRoles = false
	if err := warm(t.Context(), without, o); err != nil {
		t.Fatal(err)
	}
	if without.InformersByGVK[rbacv1.SchemeGroupVersion.WithKind("Role")] != nil {
		t.Error("Roles are read, for which a hub without UserRoles has no permission")
	}
}
