package session

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/bulk"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// The sessions of a member whose health has changed are reconciled behind all others, unless something
// may be left to do for them, or the member is lost.
func TestSettledSessionsAreReconciledBehindOthers(t *testing.T) {
	g := NewWithT(t)
	settled := func(name string, changes ...func(*v1alpha1.VDISession)) v1alpha1.VDISession {
		return *sessiontest.With(append([]func(*v1alpha1.VDISession){sessiontest.Ready, func(s *v1alpha1.VDISession) {
			s.Name, s.Status.Phase = name, v1alpha1.PhaseRunning
		}}, changes...)...)
	}
	placed := listed{items: []v1alpha1.VDISession{
		settled("runs"), settled("runs-too"), settled("edited", func(s *v1alpha1.VDISession) { s.Generation++ }),
	}}
	for lost, want := range map[bool][]string{
		false: {"edited", "new", "runs", "runs-too"},
		true:  {"runs", "runs-too", "edited", "new"},
	} {
		w := &watches{
			Reconciler: &Reconciler{Client: placed, Fleet: &oneMember{away: lost}},
			queue:      bulk.New("test", backoff.Limiter[reconcile.Request]()),
		}
		w.enqueueMember(t.Context(), "eu")
		w.queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "desktops", Name: "new"}})
		var got []string
		for w.queue.Len() > 0 {
			req, _ := w.queue.Get()
			w.queue.Done(req)
			got = append(got, req.Name)
		}
		w.queue.ShutDown()
		g.Expect(got).To(Equal(want), "lost: %v", lost)
	}
}

// listed is a client that lists sessions.
type listed struct {
	client.Client
	items []v1alpha1.VDISession
}

func (l listed) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*v1alpha1.VDISessionList).Items = l.items
	return nil
}
