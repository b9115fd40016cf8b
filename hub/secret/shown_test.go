package secret

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// A change by another client has to be repaired; the hub's own write needs no look.
func TestAChangeByAnotherClientIsNotTakenForItsOwn(t *testing.T) {
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	api := fake.NewClientBuilder().Build()
	m := &Manager{Client: api, Live: api, Namespace: "vdi-system"}
	if err := m.Keep(t.Context(), s, &v1alpha1.TemplateSpec{}); err != nil {
		t.Fatal(err)
	}
	made := &corev1.Secret{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}, made); err != nil {
		t.Fatal(err)
	}
	if !m.Shown(made) {
		t.Error("its own write is taken for another's")
	}
	edited := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: made.Namespace, Name: made.Name, ResourceVersion: made.ResourceVersion + "1"}}
	m.written.Store(client.ObjectKeyFromObject(made), made)
	if m.Shown(edited) {
		t.Error("another's write is taken for its own")
	}
	if m.Shown(made) {
		t.Error("its write is still recorded after the cache has shown a change")
	}
}

// The cache may show a write before its response arrives, and its event then removes no record.
func TestAWriteThatTheCacheShowsIsNotKept(t *testing.T) {
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	api := fake.NewClientBuilder().Build()
	m := &Manager{Client: api, Live: api, Namespace: "vdi-system"}
	if err := m.Keep(t.Context(), s, &v1alpha1.TemplateSpec{}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.current(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	m.written.Range(func(key, _ any) bool {
		t.Errorf("the record of %v is kept", key)
		return true
	})
}
