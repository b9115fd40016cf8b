package session

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// homesInMemory is a hub with one session, and the home that was claimed for a
// run of it.
type homesInMemory struct {
	*WithT
	c     client.Client
	clock *clocktesting.FakeClock
	homes *home.Reconciler
	// sessions is the session controller.
	sessions *Reconciler
	// member holds the home.
	member *memberInMemory
}

func newHomesInMemory(t *testing.T, claimedFor string, session func(*v1alpha1.VDISession), changes ...func(*v1alpha1.VDIHome)) *homesInMemory {
	x := &homesInMemory{WithT: NewWithT(t), clock: clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0))}
	scheme := runtime.NewScheme()
	x.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	s := sessiontest.With(session)
	h := &v1alpha1.VDIHome{}
	h.Namespace, h.Name = "desktops", home.Key(s).Name
	h.Spec = v1alpha1.HomeSpec{User: "ann", Template: "browser", ClusterName: "eu", ClusterUID: sessiontest.Here, ClaimName: h.Name, Generation: 1}
	h.Finalizers = []string{v1alpha1.HomeFinalizer}
	h.Annotations = map[string]string{v1alpha1.AnnotationRun: claimedFor, home.AnnotationUnused: "true"}
	at := metav1.NewTime(x.clock.Now())
	h.Status = v1alpha1.HomeStatus{MountedBy: s.Name, MountedByUID: s.UID, LastUseTime: &at}
	for _, change := range changes {
		change(h)
	}
	x.c = fake.NewClientBuilder().WithScheme(scheme).WithObjects(s, h).WithStatusSubresource(s).Build()
	sessions := &Reconciler{Client: x.c, Clock: x.clock, Recorder: events.NewFakeRecorder(10), Fleet: &oneMember{}, Cached: index.Of(), Reservations: &oneMember{}, Scheduler: noQueue{}, Orders: &assignment.Orders{}, Departures: &assignment.Departures{}}
	x.member = &memberInMemory{}
	x.sessions = sessions
	x.homes = &home.Reconciler{Client: x.c, Live: x.c, Sessions: sessions, Members: x.member, Departed: sessions.Departures.Departed, Gone: sessions.Fleet.Gone, Clock: x.clock}
	return x
}

// noQueue is a scheduler whose controller does not run.
type noQueue struct{ Scheduler }

func (noQueue) Enqueue(types.NamespacedName) {}

func (x *homesInMemory) home() *v1alpha1.VDIHome {
	h := &v1alpha1.VDIHome{}
	key := types.NamespacedName{Namespace: "desktops", Name: v1alpha1.HomeName("desktops", "ann", "browser")}
	x.Expect(x.c.Get(context.Background(), key, h)).To(Succeed())
	return h
}

func (x *homesInMemory) session() *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{}
	x.Expect(x.c.Get(context.Background(), types.NamespacedName{Namespace: "desktops", Name: "mine"}, s)).To(Succeed())
	return s
}

func (x *homesInMemory) reconcile() ctrl.Result {
	result, err := x.homes.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(x.home())})
	x.Expect(err).NotTo(HaveOccurred())
	return result
}

// plan returns the session controller's plan for a session with its home.
func (x *homesInMemory) plan(s *v1alpha1.VDISession, reports ...*assignment.Report) (*lifecycle.Input, lifecycle.Plan) {
	spec := &v1alpha1.TemplateSpec{Home: v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser}}
	in := &lifecycle.Input{
		Now: x.clock.Now(), Session: s, Home: x.home(), Reports: reports, Order: &assignment.Order{Hash: "hash", Spec: spec, Assignment: &v1alpha1.SessionAssignment{}},
		Members:  map[types.UID]member.State{sessiontest.Here: {Health: health.Ready}},
		Template: lifecycle.Template{Run: spec, Current: &v1alpha1.VDITemplate{Spec: *spec}},
	}
	return in, lifecycle.Next(in)
}

// skipRun executes the session controller's plan for a run that the home was claimed for.
func (x *homesInMemory) skipRun() error {
	in, plan := x.plan(x.session())
	return x.sessions.apply(context.Background(), in, &plan, &attempt{})
}

func idleAt(epoch, number int64) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) {
		sessiontest.PlacedAt(sessiontest.Here, epoch)(s)
		s.Status.Epoch = epoch
		s.Status.Placement.Idle, s.Status.Placement.Run = true, number
		s.Status.Home = &v1alpha1.SessionHome{Name: home.Key(s).Name}
	}
}

// A home was claimed for a run that the session's status never recorded.
func TestUnusedClaimOfAHomeIsReleased(t *testing.T) {
	for _, c := range []struct {
		name       string
		session    func(*v1alpha1.VDISession)
		claimedFor string
		reached    status.Run
	}{
		{"by one that was to be placed", func(s *v1alpha1.VDISession) { s.Status.Epoch = 4 }, "5.1", status.Run{Epoch: 5, Number: 9}},
		{"by one that was to be resumed", idleAt(5, 1), "5.2", status.Run{Epoch: 5, Number: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newHomesInMemory(t, c.claimedFor, c.session)
			before := x.session()
			x.Expect(x.reconcile().RequeueAfter).To(Equal(home.ClaimTimeout))
			x.clock.Step(home.ClaimTimeout)
			x.reconcile()
			x.Expect(x.skipRun()).To(Succeed())
			x.Expect(x.home().Status.MountedByUID).NotTo(BeEmpty(), "the session comes first")
			x.Expect(home.LastRun(x.session()).Before(c.reached)).To(BeFalse())

			// The earlier write arrives now: too late.
			late := before.DeepCopy()
			late.Status.URL = "https://late.example.com"
			patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
			x.Expect(x.c.Status().Patch(context.Background(), late, patch)).NotTo(Succeed())
			if x.session().Status.Placement == nil {
				x.reconcile()
				x.Expect(x.home().Status.MountedByUID).To(BeEmpty())
				x.Expect(x.home().Annotations).To(HaveKey(home.AnnotationUnused), "it was never ready with it")
			}
		})
	}
}

func TestHomeOfAnIdleSessionIsReleasedOnceItHasStopped(t *testing.T) {
	suspended := metav1.Condition{Type: v1alpha1.ConditionPodReady, Status: sessiontest.No, Reason: v1alpha1.ReasonSuspended}
	reported := func(change func(*v1alpha1.SessionAssignment)) *v1alpha1.SessionAssignment {
		a := sessiontest.Reported(v1alpha1.AssignmentActive, 5, "hash")
		a.Status.ObservedGeneration, a.Status.Conditions = 3, []metav1.Condition{suspended}
		change(a)
		return a
	}
	same := func(*v1alpha1.SessionAssignment) {}
	pod := func(reason string) func(*v1alpha1.SessionAssignment) {
		return func(a *v1alpha1.SessionAssignment) { a.Status.Conditions[0].Reason = reason }
	}
	started := func(s *v1alpha1.VDISession) {
		idleAt(5, 2)(s)
		at := metav1.Unix(1_600_000_000, 0)
		s.Status.StartTime = &at
	}
	for _, c := range []struct {
		name     string
		session  func(*v1alpha1.VDISession)
		reported *v1alpha1.SessionAssignment
		want     bool
	}{
		{"it has stopped", idleAt(5, 2), reported(same), true},
		{"it was ready before", started, reported(same), true},
		{"its time is over", idleAt(5, 2), reported(pod(v1alpha1.ReasonTimeExpired)), true},
		{"it failed permanently", idleAt(5, 2), reported(func(a *v1alpha1.SessionAssignment) {
			pod(v1alpha1.ReasonCrashLoop)(a)
			a.Status.Failure = &v1alpha1.Failure{Reason: v1alpha1.ReasonCrashLoop}
		}), true},
		{"it failed permanently, and its Pod is still there", idleAt(5, 2), reported(func(a *v1alpha1.SessionAssignment) {
			pod(v1alpha1.ReasonCrashLoop)(a)
			a.Status.Failure, a.Status.NodeName = &v1alpha1.Failure{Reason: v1alpha1.ReasonCrashLoop}, "n1"
		}), false},
		{"it is crashing", idleAt(5, 2), reported(pod(v1alpha1.ReasonCrashLoop)), false},
		{"its Pod is being removed", idleAt(5, 2), reported(pod(v1alpha1.ReasonPodTerminating)), false},
		{"the report is of another assignment", idleAt(5, 2), reported(func(a *v1alpha1.SessionAssignment) {
			a.Annotations[v1alpha1.AnnotationSpecHash] = "other"
		}), false},
		{"the report is of an earlier generation", idleAt(5, 2), reported(func(a *v1alpha1.SessionAssignment) { a.Status.ObservedGeneration = 0 }), false},
		{"it runs", func(s *v1alpha1.VDISession) { idleAt(5, 2)(s); s.Status.Placement.Idle = false }, reported(same), false},
		{"the view is older than the home's run", idleAt(5, 1), reported(same), false},
		{"the home is another session's", func(s *v1alpha1.VDISession) { idleAt(5, 2)(s); s.UID = "uid-other" }, reported(same), false},
		{"an earlier placement may still run", func(s *v1alpha1.VDISession) { idleAt(5, 2)(s); sessiontest.ReleasingAt(sessiontest.Elsewhere, 4)(s) }, reported(same), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := newHomesInMemory(t, "5.2", idleAt(5, 2))
			s := sessiontest.With(c.session)
			if in, plan := x.plan(s, &assignment.Report{Ref: v1alpha1.ClusterRef{Name: "eu", UID: sessiontest.Here}, Assignment: c.reported}); plan.FreeHome {
				x.Expect(home.Release(context.Background(), x.c, in.Home, s, status.Seconds(x.clock.Now()))).To(Succeed())
			}
			h := x.home()
			x.Expect(h.Status.MountedByUID == "").To(Equal(c.want))
			x.Expect(len(h.Finalizers) == 0).To(Equal(c.want))
			if c.want {
				_, unused := h.Annotations[home.AnnotationUnused]
				x.Expect(unused).To(Equal(s.Status.StartTime == nil))
			}
		})
	}
}

func TestHomeExpiresAfterItsRetentionTime(t *testing.T) {
	free := func(h *v1alpha1.VDIHome) {
		h.Status.MountedBy, h.Status.MountedByUID, h.Finalizers = "", "", nil
		h.Spec.RetentionTime = "1h"
	}
	x := newHomesInMemory(t, "5.2", idleAt(5, 2), free)
	x.clock.Step(time.Hour - time.Minute)
	x.Expect(x.reconcile().RequeueAfter).To(Equal(time.Minute))
	key := client.ObjectKeyFromObject(x.home())
	x.clock.Step(time.Minute)
	x.reconcile()
	x.Expect(client.IgnoreNotFound(x.c.Get(context.Background(), key, &v1alpha1.VDIHome{}))).To(Succeed())
	x.Expect(x.c.Get(context.Background(), key, &v1alpha1.VDIHome{})).NotTo(Succeed())

	mounted := newHomesInMemory(t, "5.2", idleAt(5, 2), func(h *v1alpha1.VDIHome) { h.Spec.RetentionTime = "1h" })
	mounted.clock.Step(24 * time.Hour)
	mounted.Expect(mounted.reconcile()).To(Equal(ctrl.Result{}))
	mounted.Expect(mounted.home().Status.MountedByUID).NotTo(BeEmpty(), "it is claimed")
}
