package session

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func suspend(a *api.SessionAssignment) { a.Spec.RunState = api.ModeSuspended }

// After an outage a watch may come back half a minute late, longer than a Pod that was
// just created is remembered. A suspension has the hub release the home to another session.
func TestNoEndIsReportedOfAPodThatTheCacheDoesNotShow(t *testing.T) {
	s := newStage(t, desktop(suspend, perUser))
	s.slow = true
	s.pass()
	s.blind = true
	s.edit(func(a *api.SessionAssignment) { a.Spec.RunState = api.ModeRunning })
	s.pass()
	s.bind()
	s.setPod(neverReady)
	s.edit(suspend)
	s.after(children.CacheDelay + time.Second)
	s.after(time.Minute)
	if c := s.condition(api.ConditionPodReady); c.Reason == api.ReasonSuspended && s.assignment().Status.ObservedGeneration == s.assignment().Generation {
		t.Fatal("it is reported as stopped, and runs")
	}
	s.setPod(ends)
	s.after(podPoll)
	s.after(podPoll)
	s.after(time.Minute)
	if c := s.condition(api.ConditionPodReady); c.Reason != api.ReasonSuspended || !s.gone(&corev1.Pod{}) {
		t.Errorf("it does not end: %s, Pod gone: %t", c.Reason, s.gone(&corev1.Pod{}))
	}
}

func TestAnEndIsVerifiedOnce(t *testing.T) {
	s := newStage(t, desktop(suspend))
	reads := &countingReader{Reader: s.client}
	s.r.APIReader = reads
	s.pass()
	first := reads.lists
	for range 5 {
		s.after(time.Minute)
	}
	if first == 0 || reads.lists != first {
		t.Errorf("%d lists at first, %d in all", first, reads.lists)
	}
	s.r.memories.Delete(s.key) // another process
	for range 5 {
		s.after(time.Minute)
	}
	if reads.lists != first {
		t.Errorf("the next process lists %d times what is stored", reads.lists-first)
	}
}

func TestAHomeIsNotMountedBesideAPodThatTheCacheDoesNotShow(t *testing.T) {
	a := desktop(perUser)
	other := render.Pod(desktop(perUser))
	other.Name, other.UID, other.Finalizers = "another", "another", nil
	other.OwnerReferences = []metav1.OwnerReference{{APIVersion: api.GroupVersion.String(), Kind: "SessionAssignment", Name: "another", UID: "x"}}
	other.Labels[api.LabelAssignment] = "another"
	s := newStage(t, a, other)
	s.blind = true
	s.pass()
	s.after(time.Minute)
	if !s.gone(&corev1.Pod{}) {
		t.Fatal("two Pods mount the home")
	}
	if c := s.condition(api.ConditionHomeReady); c.Reason != api.ReasonHomeInUse {
		t.Errorf("HomeReady is %+v", c)
	}
	if err := s.client.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	s.blind = false
	s.after(removalPoll)
	if s.gone(&corev1.Pod{}) {
		t.Error("the Pod is not made once the home is free")
	}
}

// countingReader counts lists of Pods.
type countingReader struct {
	client.Reader
	lists int
}

func (r *countingReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, pods := list.(*corev1.PodList); pods {
		r.lists++
	}
	return r.Reader.List(ctx, list, opts...)
}
