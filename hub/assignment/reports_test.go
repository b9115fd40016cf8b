package assignment

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// A member that connects may report thousands of sessions as the hub already shows them. They do not
// delay those of which it reports something else.
func TestWhatSessionsAlreadyShowIsReconciledAtALimitedRate(t *testing.T) {
	g := NewWithT(t)
	s := sessiontest.With(sessiontest.Ready, func(s *v1alpha1.VDISession) { s.Status.Phase = v1alpha1.PhaseRunning })
	report := func(changes ...func(*v1alpha1.SessionAssignment)) *v1alpha1.SessionAssignment {
		a := sessiontest.Reported(v1alpha1.AssignmentActive, 5, "hash")
		a.Namespace, a.Name = s.Namespace, KeyOf(s).Name
		for _, name := range []string{v1alpha1.ConditionHomeReady, v1alpha1.ConditionEndpointReady, v1alpha1.ConditionPodReady} {
			a.Status.Conditions = append(a.Status.Conditions, *meta.FindStatusCondition(s.Status.Conditions, name))
		}
		for _, change := range changes {
			change(a)
		}
		return a
	}
	for _, c := range []struct {
		name    string
		report  *v1alpha1.SessionAssignment
		session *v1alpha1.VDISession
		member  string
		settled bool
	}{
		{name: "as it is shown", report: report(), settled: true},
		{name: "with a message that is not", report: report(func(a *v1alpha1.SessionAssignment) { a.Status.Conditions[2].Message = "another" }), settled: true},
		{name: "not Ready", report: report(func(a *v1alpha1.SessionAssignment) { a.Status.Conditions[2].Status = sessiontest.No })},
		{name: "for another reason", report: report(func(a *v1alpha1.SessionAssignment) { a.Status.Conditions[2].Reason = v1alpha1.ReasonCrashLoop })},
		{name: "stopped", report: report(func(a *v1alpha1.SessionAssignment) { a.Status.State = v1alpha1.AssignmentStopped })},
		{name: "failed", report: report(func(a *v1alpha1.SessionAssignment) { a.Status.Failure = &v1alpha1.Failure{} })},
		{name: "of an earlier epoch", report: report(func(a *v1alpha1.SessionAssignment) { a.Spec.Epoch = 4 })},
		{name: "with a condition that is not shown", report: report(), session: sessiontest.With(sessiontest.Ready, func(s *v1alpha1.VDISession) {
			s.Status.Phase = v1alpha1.PhaseRunning
			meta.RemoveStatusCondition(&s.Status.Conditions, v1alpha1.ConditionPodReady)
		})},
		{name: "whose time has expired", report: report(func(a *v1alpha1.SessionAssignment) { a.Status.Conditions[2].Reason = v1alpha1.ReasonTimeExpired }),
			session: sessiontest.With(sessiontest.Ready, func(s *v1alpha1.VDISession) {
				s.Status.Phase = v1alpha1.PhaseRunning
				meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionPodReady).Reason = v1alpha1.ReasonTimeExpired
			})},
		{name: "by another member", report: report(), member: "elsewhere"},
		{name: "of an edited session", report: report(), session: sessiontest.With(sessiontest.Ready, func(s *v1alpha1.VDISession) {
			s.Status.Phase, s.Generation = v1alpha1.PhaseRunning, 2
		})},
		{name: "of no session", report: report(), session: sessiontest.With(func(s *v1alpha1.VDISession) { s.Name = "other" })},
	} {
		if c.session == nil {
			c.session = s
		}
		if c.member == "" {
			c.member = s.Status.Placement.ClusterName
		}
		by := &countedSessions{}
		r := &Reconciler{Cached: index.Of(c.session), Sessions: by}
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[mcreconcile.Request]())
		handler := r.reports(multicluster.ClusterName(c.member), nil)

		handler.Create(t.Context(), event.CreateEvent{Object: c.report}, queue)
		g.Expect(queue.Len() == 0).To(Equal(c.settled), "%s: its assignment is compared at once", c.name)
		g.Expect(by.settled == 1 && by.atOnce == 0).To(Equal(c.settled), "%s: %+v", c.name, by)

		handler.Update(t.Context(), event.UpdateEvent{ObjectOld: c.report, ObjectNew: c.report}, queue)
		g.Expect(queue.Len()).To(Equal(1), "%s: a changed report never waits", c.name)
		queue.ShutDown()
	}
}

// countedSessions counts the sessions that are enqueued.
type countedSessions struct {
	Sessions
	atOnce, settled int
}

func (c *countedSessions) Enqueue(types.NamespacedName)        { c.atOnce++ }
func (c *countedSessions) EnqueueSettled(types.NamespacedName) { c.settled++ }
