package door

import (
	"testing"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// members keeps what was sent last.
type members struct{ sent *fleetv1.DoorConfig }

func (m *members) SetDoor(c *fleetv1.DoorConfig) { m.sent = c }

func TestDoorsGetThePublicKeys(t *testing.T) {
	key := func(id string) string { return `{"` + id + `":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}` }
	for _, tc := range []struct {
		name, stored string
		ids          []string
		fails        bool
	}{
		{name: "one key", stored: key("a"), ids: []string{"a"}},
		{name: "none", stored: `{}`},
		{name: "no Secret"},
		// The doors keep the keys that they have.
		{name: "a key that is too short", stored: `{"a":"AAAA"}`, fails: true},
		{name: "no JSON", stored: `[`, fails: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			store := fake.NewClientBuilder()
			if tc.stored != "" {
				store.WithObjects(&corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: "vdi-console-keys"},
					Data:       map[string][]byte{v1alpha1.ConsolePublicKeys: []byte(tc.stored), "ring.json": []byte("private")},
				})
			}
			got := &members{}
			r := &Reconciler{Client: store.Build(), Members: got, Namespace: "vdi-system", Console: "https://vdi.example.com"}
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "vdi-system", Name: "vdi-console-keys"}})
			if (err != nil) != tc.fails {
				t.Fatal(err)
			}
			if tc.fails {
				if got.sent != nil {
					t.Errorf("it sent %v", got.sent)
				}
				return
			}
			want := &fleetv1.DoorConfig{ConsoleOrigin: "https://vdi.example.com"}
			for _, id := range tc.ids {
				want.Keys = append(want.Keys, &fleetv1.VisitKey{Id: id, PublicKey: make([]byte, 32)})
			}
			if !proto.Equal(got.sent, want) {
				t.Errorf("it sent %v, not %v", got.sent, want)
			}
		})
	}
}

// Members whose hub has no console go on as if they had no door.
func TestAHubWithoutAConsole(t *testing.T) {
	got := &members{}
	if err := (&Reconciler{Members: got}).SetupWithManager(nil); err != nil || got.sent == nil || got.sent.GetConsoleOrigin() != "" {
		t.Errorf("it sent %v, %v", got.sent, err)
	}
}
