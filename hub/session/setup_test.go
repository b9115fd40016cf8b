package session

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/bulk"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// The sessions of a member whose health has changed are reconciled behind all others, unless something
// may be left to do for them, or the member is lost.
func TestSettledSessionsAreReconciledBehindOthers(t *testing.T) {
	g := NewWithT(t)
	settled := func(name string, changes ...func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
		return sessiontest.With(append([]func(*v1alpha1.VDISession){sessiontest.Ready, func(s *v1alpha1.VDISession) {
			s.Name, s.Status.Phase = name, v1alpha1.PhaseRunning
		}}, changes...)...)
	}
	placed := index.Of(settled("runs"), settled("runs-too"), settled("edited", func(s *v1alpha1.VDISession) { s.Generation++ }))
	for lost, before := range map[bool][]string{false: {"edited"}, true: {"edited", "runs", "runs-too"}} {
		w, queue := watches{&Reconciler{Cached: placed, Fleet: &oneMember{away: lost}}}, bulk.New("test", backoff.Limiter[reconcile.Request]())
		w.queue.Store(queue)
		w.enqueueMember("name-of-uid-here")
		queue.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "desktops", Name: "new"}})
		var got []string
		for queue.Len() > 0 {
			req, _ := queue.Get()
			queue.Done(req)
			got = append(got, req.Name)
		}
		queue.ShutDown()
		g.Expect(got).To(HaveLen(4))
		g.Expect(got[:slices.Index(got, "new")]).To(ConsistOf(before), "lost: %v", lost)
	}
}

// A new leader lists all sessions. New ones do not wait behind those that are settled.
func TestSettledSessionsOfTheFirstListAreReconciledBehindOthers(t *testing.T) {
	g := NewWithT(t)
	runs := sessiontest.With(sessiontest.Ready, func(s *v1alpha1.VDISession) { s.Name, s.Status.Phase = "runs", v1alpha1.PhaseRunning })
	starts := sessiontest.With(sessiontest.Created, func(s *v1alpha1.VDISession) { s.Name, s.Status.Phase = "starts", v1alpha1.PhaseCreating })
	w, queue := watches{&Reconciler{}}, bulk.New("test", backoff.Limiter[reconcile.Request]())
	defer queue.ShutDown()
	w.queue.Store(queue)
	for _, s := range []*v1alpha1.VDISession{runs, starts} {
		w.sessions().Create(t.Context(), event.CreateEvent{Object: s, IsInInitialList: true}, queue)
	}
	next := func() string {
		req, _ := queue.Get()
		queue.Done(req)
		return req.Name
	}
	g.Expect(next()).To(Equal("starts"))
	g.Expect(next()).To(Equal("runs"))

	other := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "desktops", Name: "other"}}
	for name, changed := range map[string]func(){
		"an update":                   func() { w.sessions().Update(t.Context(), event.UpdateEvent{ObjectOld: runs, ObjectNew: runs}, queue) },
		"one that is not in the list": func() { w.sessions().Create(t.Context(), event.CreateEvent{Object: runs}, queue) },
	} {
		queue.AddBulk(other)
		changed()
		g.Expect(next()).To(Equal("runs"), "%s does not wait", name)
		g.Expect(next()).To(Equal("other"))
	}
}
