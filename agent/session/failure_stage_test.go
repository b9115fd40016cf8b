package session

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// waits is a kubelet's status of a container that it can't start.
func waits(reason string, restarts int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: render.DesktopContainer, RestartCount: restarts,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: "because"}},
		}}
	}
}

func outOfMemory(p *corev1.Pod) {
	waits("CrashLoopBackOff", 7)(p)
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}
}

func neverReady(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	started := true
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: render.DesktopContainer, Started: &started,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
}

func evicted(p *corev1.Pod) {
	p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on memory."
}

func unfit(p *corev1.Pod) {
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes"}}
}

// trouble is what the test does to a session that is otherwise well.
type trouble struct {
	pod     func(*corev1.Pod)
	unbound bool
	refuse  error
	claim   func(*corev1.PersistentVolumeClaim)
}

func (tr trouble) on(s *stage) {
	if tr.refuse != nil {
		s.refuse = func(write string) error {
			if write == "create Pod" {
				return tr.refuse
			}
			return nil
		}
	}
	s.pass()
	if tr.claim != nil {
		s.setClaim(tr.claim)
	}
	if tr.pod != nil {
		if !tr.unbound {
			s.bind()
		}
		s.setPod(tr.pod)
	}
}

func (s *stage) setClaim(change func(*corev1.PersistentVolumeClaim)) {
	s.t.Helper()
	var claim corev1.PersistentVolumeClaim
	s.get(&claim)
	change(&claim)
	if err := s.client.Status().Update(context.Background(), &claim); err != nil {
		s.t.Fatal(err)
	}
}

// persist keeps the trouble up for a time, whatever the reconciler does.
func (tr trouble) persist(s *stage, d time.Duration) {
	for end := s.clock.Now().Add(d); s.clock.Now().Before(end); {
		s.after(20 * time.Second)
		if tr.pod != nil && !s.gone(&corev1.Pod{}) {
			s.setPod(tr.pod)
		}
	}
}

var podKind = schema.GroupKind{Kind: "Pod"}

func TestFailsPermanentlyWhereARetryCannotHelp(t *testing.T) {
	cases := map[string]struct {
		trouble
		reason string
		// soon: at once, not only after some patience.
		soon bool
	}{
		"an image's name that is none":      {trouble{pod: waits("InvalidImageName", 0)}, api.ReasonImagePull, true},
		"an image that may not be pulled":   {trouble{pod: waits("ErrImageNeverPull", 0)}, api.ReasonImagePull, true},
		"an object that is invalid":         {trouble{refuse: apierrors.NewInvalid(podKind, "x", nil)}, api.ReasonApplyFailed, true},
		"a home whose volume is gone":       {trouble{claim: func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }}, api.ReasonClaimLost, true},
		"an image that can't be pulled":     {trouble{pod: waits("ImagePullBackOff", 0)}, api.ReasonImagePull, false},
		"a desktop that ends at each start": {trouble{pod: waits("CrashLoopBackOff", 7)}, api.ReasonCrashLoop, false},
		"a desktop that needs more memory":  {trouble{pod: outOfMemory}, api.ReasonOutOfMemory, false},
		"a container that can't be made":    {trouble{pod: waits("CreateContainerConfigError", 0)}, api.ReasonContainerError, false},
		"a desktop that never answers":      {trouble{pod: neverReady}, api.ReasonPodNotReady, false},
		"a Pod that is evicted every time":  {trouble{pod: evicted}, api.ReasonEvicted, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, desktop(perSession))
			c.on(s)
			s.pass()
			if failed := s.assignment().Status.Failure != nil; failed != c.soon {
				t.Fatalf("failed permanently at once: %t, want %t", failed, c.soon)
			}
			c.persist(s, 20*time.Minute)
			expectFailure(s, c.reason)
			expectRetry(s)
		})
	}
}

// expectFailure: the failure was written before the Pod was removed, and
// nothing is tried after it.
func expectFailure(s *stage, reason string) {
	s.t.Helper()
	a := s.assignment()
	if a.Status.Failure == nil || a.Status.Failure.Reason != reason || a.Status.Failure.Message == "" {
		s.t.Fatalf("the failure is %+v, want reason %s", a.Status.Failure, reason)
	}
	c := meta.FindStatusCondition(a.Status.Conditions, api.ConditionProgressing)
	if c == nil || c.Status != "False" || c.Reason != reason {
		s.t.Errorf("Progressing is %+v", c)
	}
	if !s.gone(&corev1.Pod{}) {
		s.t.Error("the Pod is left")
	}
	last := slices.Index(s.writes, "delete Pod")
	if status := slices.Index(s.writes, "status SessionAssignment"); last >= 0 && (status < 0 || status > last) {
		s.t.Errorf("the Pod was removed before the cause was reported: %v", s.writes)
	}
	s.wrote()
	for range 12 {
		s.after(5 * time.Minute)
	}
	if got := s.wrote(); len(got) != 0 {
		s.t.Errorf("an hour later: %v", got)
	}
}

// expectRetry: a higher attempt is tried at once, with nothing kept of the last.
func expectRetry(s *stage) {
	s.t.Helper()
	s.refuse = nil
	s.setClaim(func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimBound })
	a := s.assignment()
	a.Spec.Attempt++
	a.Generation++
	if err := s.client.Update(context.Background(), a); err != nil {
		s.t.Fatal(err)
	}
	s.pass()
	if s.count("create Pod") != 1 {
		s.t.Errorf("a higher attempt was not tried at once: %v", s.writes)
	}
	s.bind()
	s.setPod(makeReady)
	s.pass()
	a = s.assignment()
	if a.Status.Failure != nil || meta.FindStatusCondition(a.Status.Conditions, api.ConditionProgressing) != nil {
		s.t.Errorf("the failure of the last attempt stands: %+v", a.Status)
	}
}

func TestTransientErrorsNeverFailPermanently(t *testing.T) {
	quota := apierrors.NewForbidden(pod, "x", errors.New("exceeded quota: team, requested: pods=1"))
	cases := map[string]struct {
		trouble
		reason string
	}{
		"no node fits":        {trouble{pod: unfit, unbound: true}, api.ReasonUnschedulablePod},
		"a quota is used up":  {trouble{refuse: quota}, api.ReasonQuotaExceeded},
		"a webhook denies it": {trouble{refuse: apierrors.NewForbidden(pod, "x", errors.New("policy"))}, api.ReasonApplyFailed},
		"the desktop is slow": {trouble{pod: func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }}, api.ReasonStarting},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, desktop())
			c.on(s)
			c.persist(s, time.Hour)
			if a := s.assignment(); a.Status.Failure != nil {
				t.Errorf("failed permanently: %+v", a.Status.Failure)
			}
			if got := s.condition(api.ConditionPodReady); got.Reason != c.reason {
				t.Errorf("PodReady: %+v", got)
			}
		})
	}
}

func TestQuotaIsRetriedUntilThereIsCapacity(t *testing.T) {
	s := newStage(t, desktop())
	tr := trouble{refuse: apierrors.NewForbidden(pod, "x", errors.New("exceeded quota: team"))}
	tr.on(s)
	tr.persist(s, time.Hour)
	if tries := s.count("create Pod"); tries < 20 || tries > 60 {
		t.Errorf("%d tries in an hour", tries)
	}
	s.refuse = nil
	s.after(children.RetryAfter(100))
	if s.gone(&corev1.Pod{}) {
		t.Error("not tried when there was capacity")
	}
}

func TestALostNodeIsReportedAndNothingIsForced(t *testing.T) {
	s := newStage(t, desktop())
	s.pass()
	s.bind()
	s.setPod(makeReady)
	s.pass()
	s.r.Nodes = nodeStates{"n1": false}
	s.setPod(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	trouble{}.persist(s, time.Hour)
	if c := s.condition(api.ConditionPodReady); c.Reason != api.ReasonNodeLost {
		t.Errorf("PodReady: %+v", c)
	}
	if s.gone(&corev1.Pod{}) || s.assignment().Status.Failure != nil {
		t.Error("the desktop of a lost node failed permanently")
	}
}

type nodeStates map[string]bool

func (n nodeStates) Node(name string) observe.Node {
	ready, ok := n[name]
	return observe.Node{Known: ok, Ready: ready}
}

func TestNoPodIsMadeWithoutItsNetworkPolicy(t *testing.T) {
	s := newStage(t, desktop())
	s.refuse = func(write string) error {
		if write == "create NetworkPolicy" {
			return apierrors.NewForbidden(pod, "x", errors.New("denied"))
		}
		return nil
	}
	s.pass()
	if s.count("create Pod") != 0 {
		t.Errorf("a desktop without a NetworkPolicy: %v", s.writes)
	}
	if c := s.condition(api.ConditionEndpointReady); c.Reason != api.ReasonApplyFailed {
		t.Errorf("EndpointReady: %+v", c)
	}
	s.refuse = nil
	s.after(children.RetryAfter(0))
	if s.count("create Pod") != 1 {
		t.Errorf("not made once the policy could be: %v", s.writes)
	}
}

func TestAnInvalidChildIsTriedOnce(t *testing.T) {
	s := newStage(t, desktop(perSession))
	tries := 0
	s.refuse = func(write string) error {
		if write == "create Service" {
			tries++
			return apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "x", nil)
		}
		return nil
	}
	trouble{}.persist(s, time.Hour)
	if tries != 1 {
		t.Errorf("tried %d times in an hour", tries)
	}
	expectFailure(s, api.ReasonApplyFailed)
	expectRetry(s)
}
