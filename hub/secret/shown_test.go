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
	made, err := m.current(t.Context(), s)
	if err != nil || made == nil {
		t.Fatal(made, err)
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
