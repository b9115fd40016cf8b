package session

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestAQuickStartCostsOneStatusWrite(t *testing.T) {
	s := newStage(t, desktop())
	s.pass()
	s.bind()
	s.pass()
	s.setPod(makeReady)
	s.pass()
	want := []string{"create NetworkPolicy", "create PodDisruptionBudget", "create Pod", "create Service", "create Ingress",
		"status SessionAssignment"}
	if slices.Index(s.writes, "create NetworkPolicy") > slices.Index(s.writes, "create Pod") {
		t.Errorf("the Pod was created without its isolation: %v", s.writes)
	}
	if d := cmp.Diff(want, s.wrote(), inAnyOrder); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	s.after(time.Minute)
	if got := s.wrote(); len(got) != 0 {
		t.Errorf("with nothing to do: %v", got)
	}
}

func TestASlowStartReportsOnceWhatItWaitsFor(t *testing.T) {
	s := newStage(t, desktop())
	delay := s.pass()
	if delay != s.r.Options.StatusDelay {
		t.Errorf("reconciles again after %s, want %s", delay, s.r.Options.StatusDelay)
	}
	s.after(delay)
	s.bind()
	s.after(time.Second)
	s.setPod(makeReady)
	s.after(time.Second)
	if got := s.count("status SessionAssignment"); got != 2 {
		t.Errorf("%d status writes, want 2: %v", got, s.writes)
	}
}

func TestAnErrorThatPassesIsNotReported(t *testing.T) {
	s := newStage(t, desktop())
	s.refuse = func(write string) error {
		if write == "create Service" {
			return apierrors.NewServiceUnavailable("later")
		}
		return nil
	}
	s.clock.SetTime(noon.Add(time.Hour))
	if _, err := s.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: s.key}); err == nil {
		t.Error("the error was swallowed")
	}
	want := []string{"create NetworkPolicy", "create PodDisruptionBudget", "create Pod", "create Service", "create Ingress"}
	if d := cmp.Diff(want, s.wrote(), inAnyOrder); d != "" {
		t.Errorf("one child's error kept back the others, or was reported (-want +got):\n%s", d)
	}
	s.refuse = nil
	s.pass()
	if d := cmp.Diff([]string{"create Service"}, s.wrote()); d != "" {
		t.Error(d)
	}
}

func TestARefusalIsReportedOnceAndRetriedWithBackoff(t *testing.T) {
	s := newStage(t, desktop())
	s.refuse = func(write string) error {
		if write == "create Pod" {
			return apierrors.NewForbidden(pod, s.key.Name, errors.New("exceeded quota: team"))
		}
		return nil
	}
	for range 10 {
		s.after(time.Second)
	}
	// At 0, 2, 6 seconds, however often something else happens.
	if tries, reports := s.count("create Pod"), s.count("status SessionAssignment"); tries != 3 || reports != 1 {
		t.Errorf("%d tries and %d reports in ten seconds: %v", tries, reports, s.writes)
	}
	c := s.condition(api.ConditionPodReady)
	if c.Reason != api.ReasonQuotaExceeded || c.Message == "" {
		t.Errorf("the condition is %+v", c)
	}
	if got := len(s.events.Events); got != 1 {
		t.Errorf("%d events, want 1", got)
	}
}

func TestAStaleCacheCostsNoWrites(t *testing.T) {
	s := newStage(t, desktop())
	s.pass()
	s.bind()
	s.setPod(makeReady)
	var before api.SessionAssignment
	s.get(&before)
	var p corev1.Pod
	s.get(&p)
	s.wrote()
	s.stale = func(_ client.ObjectKey, o client.Object) (bool, error) {
		switch o := o.(type) {
		case *api.SessionAssignment:
			before.DeepCopyInto(o)
			return true, nil
		case *corev1.Service:
			return true, apierrors.NewNotFound(pod, "x")
		}
		return false, nil
	}
	for range 3 {
		s.after(time.Second)
	}
	if d := cmp.Diff([]string{"status SessionAssignment"}, s.wrote()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestNoDesktopIsMadeOfWhatTheHubHasWithdrawn(t *testing.T) {
	for name, change := range map[string]func(s *stage, a *api.SessionAssignment) error{
		"it is being stopped": func(s *stage, a *api.SessionAssignment) error { return s.client.Delete(t.Context(), a) },
		"it is gone": func(s *stage, a *api.SessionAssignment) error {
			a.Finalizers = nil
			return errors.Join(s.client.Update(t.Context(), a), client.IgnoreNotFound(s.client.Delete(t.Context(), a)))
		},
		"it is changed": func(s *stage, a *api.SessionAssignment) error {
			a.Generation++
			a.Spec.RunState = api.ModeSuspended
			return s.client.Update(t.Context(), a)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, desktop())
			s.pass()
			var p corev1.Pod
			s.get(&p)
			before := s.assignment()
			if err := errors.Join(s.client.Delete(t.Context(), &p), change(s, before.DeepCopy())); err != nil {
				t.Fatal(err)
			}
			s.wrote()
			s.stale = func(_ client.ObjectKey, o client.Object) (bool, error) {
				a, ok := o.(*api.SessionAssignment)
				if ok {
					before.DeepCopyInto(a)
				}
				return ok, nil
			}
			s.clock.SetTime(s.clock.Now().Add(time.Minute))
			// What it writes of an assignment that is gone fails, which is well.
			_, _ = s.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: s.key})
			if n := s.count("create Pod"); n != 0 {
				t.Errorf("%d Pods are made by a cache that is late: %v", n, s.writes)
			}
		})
	}
}

func TestAConflictOverAChildBacksOff(t *testing.T) {
	s := newStage(t, desktop())
	s.pass()
	s.wrote()
	for range 60 {
		var svc corev1.Service
		s.get(&svc)
		svc.Spec.Selector = map[string]string{"mine": "all mine"}
		if err := s.client.Update(context.Background(), &svc); err != nil {
			t.Fatal(err)
		}
		s.after(time.Second)
	}
	if got := s.count("patch Service"); got < 2 || got > 6 {
		t.Errorf("%d repairs in a minute", got)
	}
}

func TestPodsThatEndAreReplacedWithBackoff(t *testing.T) {
	s := newStage(t, desktop())
	s.pass()
	for _, want := range []time.Duration{children.RetryAfter(0), 2 * children.RetryAfter(0), 4 * children.RetryAfter(0)} {
		s.setPod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		s.pass()
		if c := s.condition(api.ConditionPodReady); c.Reason != api.ReasonPodFailed {
			t.Fatalf("the condition is %+v", c)
		}
		s.wrote()
		s.after(want - time.Millisecond)
		if got := s.count("delete Pod"); got != 0 {
			t.Errorf("replaced before %s", want)
		}
		s.after(time.Millisecond)
		s.pass()
		if s.count("delete Pod") != 1 || s.count("create Pod") != 1 {
			t.Errorf("not replaced after %s: %v", want, s.writes)
		}
	}
	s.bind()
	s.setPod(makeReady)
	s.pass()
	s.setPod(func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodFailed} })
	s.pass()
	s.wrote()
	s.after(children.RetryAfter(0))
	if s.count("delete Pod") != 1 {
		t.Error("a desktop that ran is made to wait for the failures before it")
	}
}

func TestThePodWaitsForAHomeThatIsItsOwn(t *testing.T) {
	a := desktop(perUser)
	others := render.Home(a)
	others.Annotations[render.AnnotationUser] = "joe"
	s := newStage(t, a, others)
	s.pass()
	if s.count("create Pod") != 0 || s.count("patch PersistentVolumeClaim") != 0 {
		t.Errorf("writes: %v", s.writes)
	}
	if c := s.condition(api.ConditionHomeReady); c.Reason != api.ReasonConflict {
		t.Errorf("HomeReady: %+v", c)
	}
}

func TestAHomeThatCannotBeReadKeepsThePodBack(t *testing.T) {
	s := newStage(t, desktop(perUser))
	s.refuse = func(write string) error {
		if write == "create PersistentVolumeClaim" {
			return apierrors.NewServiceUnavailable("later")
		}
		return nil
	}
	_, err := s.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: s.key})
	if err == nil || s.count("create Pod") != 0 {
		t.Errorf("error %v, writes %v", err, s.writes)
	}
}

func TestAHomeThatIsNotRemovedDoesNotKeepItsSession(t *testing.T) {
	a := desktop(perSession)
	claim := render.Home(a)
	claim.UID, claim.Finalizers = "claim", []string{"example.com/storage"}
	s := newStage(t, a, claim)
	if err := s.client.Delete(context.Background(), s.assignment()); err != nil {
		t.Fatal(err)
	}
	s.pass()
	if s.gone(&api.SessionAssignment{}) {
		t.Fatal("the session did not wait for its home at all")
	}
	s.after(s.r.Options.CleanupDeadline)
	if !s.gone(&api.SessionAssignment{}) {
		t.Error("the session still waits for its home")
	}
	if got := s.count("delete PersistentVolumeClaim"); got != 1 {
		t.Errorf("%d deletions of the claim", got)
	}
}

func TestAnAssignmentOfAnotherOwnerIsIgnored(t *testing.T) {
	s := newStage(t, desktop(func(a *api.SessionAssignment) { a.Finalizers = []string{"example.com/other"} }))
	if err := s.client.Delete(context.Background(), s.assignment()); err != nil {
		t.Fatal(err)
	}
	s.pass()
	if got := s.wrote(); len(got) != 0 {
		t.Errorf("writes: %v", got)
	}
}

func TestAnAssignmentWithoutFinalizerGetsItBeforeItsChildren(t *testing.T) {
	s := newStage(t, desktop(func(a *api.SessionAssignment) { a.Finalizers = nil }))
	s.pass()
	if s.writes[0] != "patch SessionAssignment" || len(s.assignment().Finalizers) != 1 {
		t.Errorf("writes: %v", s.writes)
	}
}

func TestAnUneventfulEndWritesNoStatus(t *testing.T) {
	s := newStage(t, desktop())
	s.pass()
	s.bind()
	s.setPod(makeReady)
	s.pass()
	s.wrote()
	if err := s.client.Delete(context.Background(), s.assignment(), &client.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	s.pass()
	s.pass()
	want := []string{"delete Ingress", "delete Service", "delete Pod",
		"patch SessionAssignment"}
	if d := cmp.Diff(want, s.wrote()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if !s.gone(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{}}) {
		t.Error("the Pod is left")
	}
}
