package session

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
)

func TestHomeHasOneWriterWhateverComesBetween(t *testing.T) {
	shared := 0 // how often the home passed from one session to another
	rapid.Check(t, func(t *rapid.T) {
		w := newHomeWorld(t)
		defer w.end()
		pick := func(label string) string { return rapid.SampledFrom(homeSessions).Draw(t, label) }
		for _, name := range homeSessions {
			w.create(name)
		}
		last := types.UID("")
		actions := map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				w.oneWriter()
				if h := w.record(); h != nil && h.Status.MountedByUID != "" && h.Status.MountedByUID != last {
					if last != "" {
						shared++
					}
					last = h.Status.MountedByUID
				}
			},
			"reconcile": func(*rapid.T) { w.reconcile(pick("session")) },
			"catch up":  func(*rapid.T) { w.catchUp() },
			"write": func(t *rapid.T) {
				if len(w.ops) == 0 {
					t.Skip("nothing is under way")
				}
				w.decide(rapid.SampledFrom(w.ops).Draw(t, "op"), rapid.SampledFrom([]fate{lands, lands, lands, isLost, losesReply}).Draw(t, "fate"))
			},
			"home controller": func(*rapid.T) { w.controlHome() },
			"order":           func(*rapid.T) { w.order(pick("session")) },
			"member": func(t *rapid.T) {
				if s := w.stored(pick("session")); s != nil {
					if _, ordered := w.ordered[s.UID]; ordered {
						w.kubelet(s.UID)
						w.report(s.UID)
					}
				}
			},
			"toggle": func(*rapid.T) {
				if s := w.stored(pick("session")); s != nil {
					if s.Spec.OperatingMode == v1alpha1.ModeSuspended {
						s.Spec.OperatingMode = v1alpha1.ModeRunning
					} else {
						s.Spec.OperatingMode = v1alpha1.ModeSuspended
					}
					w.must(w.api.Update(context.Background(), s))
				}
			},
			"delete or create": func(*rapid.T) {
				name := pick("session")
				if s := w.stored(name); s == nil {
					w.create(name)
				} else {
					w.must(client.IgnoreNotFound(w.api.Delete(context.Background(), s)))
				}
			},
			"finish":     func(*rapid.T) { w.finish(pick("session")) },
			"new leader": func(*rapid.T) { w.newLeader() },
			"time":       func(*rapid.T) { w.clock.Step(home.ClaimTimeout / 2) },
			"quiet":      func(*rapid.T) { w.quiet() },
		}
		for range 3 {
			t.Repeat(actions)
		}
	})
	if !testing.Short() { // a short run tries too little
		NewWithT(t).Expect(shared).To(BeNumerically(">", 0), "the home never changed hands: nothing was tested")
	}
}
