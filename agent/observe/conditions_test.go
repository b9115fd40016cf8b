package observe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func assignment(change ...func(*api.SessionAssignment)) *api.SessionAssignment {
	a := &api.SessionAssignment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-0123456789", Generation: 1},
		Spec: api.SessionAssignmentSpec{
			RunState: api.ModeRunning,
			Host:     "web.example.com",
			Desktop:  api.Desktop{Image: "registry/browser:1", Home: api.AssignedHome{Mode: api.HomePerUser, ClaimName: "home-x"}},
		},
	}
	for _, c := range change {
		c(a)
	}
	return a
}

func suspended(a *api.SessionAssignment) { a.Spec.RunState = api.ModeSuspended }
func homeless(a *api.SessionAssignment)  { a.Spec.Desktop.Home = api.AssignedHome{Mode: api.HomeNone} }

func pvc(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	p := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "home-x"}}
	p.Status.Phase = corev1.ClaimBound
	for _, c := range change {
		c(p)
	}
	return p
}

// pod is bound to node n1; status says the rest.
func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		Spec: corev1.PodSpec{
			NodeName:   "n1",
			Containers: []corev1.Container{{Name: "desktop", Image: "registry/browser:1"}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func with(c corev1.PodCondition) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Conditions = append(p.Status.Conditions, c) }
}

func state(s corev1.ContainerStatus) func(*corev1.Pod) {
	s.Name = "desktop"
	return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{s} }
}

func wait(reason, message string) func(*corev1.Pod) {
	return state(corev1.ContainerStatus{State: corev1.ContainerState{
		Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message},
	}})
}

func crashed(t corev1.ContainerStateTerminated) func(*corev1.Pod) {
	return state(corev1.ContainerStatus{
		RestartCount:         4,
		State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 40s"}},
		LastTerminationState: corev1.ContainerState{Terminated: &t},
	})
}

func unbind(p *corev1.Pod) { p.Spec.NodeName = "" }

func phase(phase corev1.PodPhase, reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason, p.Status.Message = phase, reason, message }
}

func deletedPod(p *corev1.Pod)                     { p.DeletionTimestamp = &metav1.Time{} }
func deletedClaim(p *corev1.PersistentVolumeClaim) { p.DeletionTimestamp = &metav1.Time{} }
func pendingClaim(p *corev1.PersistentVolumeClaim) { p.Status.Phase = corev1.ClaimPending }
func lostClaim(p *corev1.PersistentVolumeClaim) {
	p.Status.Phase = corev1.ClaimLost
	p.Spec.VolumeName = "pv-7"
}
func fastClaim(p *corev1.PersistentVolumeClaim) { p.Spec.StorageClassName = ptr.To("fast") }
func readyPod(p *corev1.Pod) {
	with(corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})(p)
}
func condition(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Status: status, Reason: reason, Message: message}
}

func yes(reason, message string) metav1.Condition {
	return condition(metav1.ConditionTrue, reason, message)
}

func no(reason, message string) metav1.Condition {
	return condition(metav1.ConditionFalse, reason, message)
}

func check(t *testing.T, kind string, got, want metav1.Condition) {
	t.Helper()
	want.Type = kind
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestHome(t *testing.T) {
	cases := map[string]struct {
		a    *api.SessionAssignment
		f    Found
		want metav1.Condition
	}{
		"none":      {assignment(homeless), Found{}, yes(api.ReasonNoHome, "The desktop has no home.")},
		"not made":  {assignment(), Found{}, no(api.ReasonBinding, "The claim home-x of the home is not made yet.")},
		"bound":     {assignment(), Found{Home: pvc()}, yes(api.ReasonBound, "The claim home-x is bound.")},
		"unbound":   {assignment(), Found{Home: pvc(pendingClaim, fastClaim)}, no(api.ReasonBinding, "The claim home-x waits for a volume of storage class fast.")},
		"no class":  {assignment(), Found{Home: pvc(pendingClaim)}, no(api.ReasonBinding, "The claim home-x waits for a volume of the default storage class: if this lasts, the cluster may have none.")},
		"lost":      {assignment(), Found{Home: pvc(lostClaim)}, no(api.ReasonClaimLost, "The volume pv-7 of the home's claim home-x is gone: restore it, or delete the claim to begin with an empty home.")},
		"leaving":   {assignment(), Found{Home: pvc(deletedClaim)}, yes(api.ReasonBound, "The claim home-x is being deleted: the home is lost when the desktop stops.")},
		"going":     {assignment(), Found{Home: pvc(pendingClaim, deletedClaim)}, no(api.ReasonBinding, "The claim home-x is being deleted, a new one is made when it is gone.")},
		"taken":     {assignment(), Found{Home: pvc(), HomeProblem: &Problem{api.ReasonConflict, "m"}}, no(api.ReasonConflict, "m")},
		"suspended": {assignment(suspended), Found{Home: pvc()}, yes(api.ReasonBound, "The claim home-x is bound.")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { check(t, api.ConditionHomeReady, Home(c.a, c.f), c.want) })
	}
}

func TestEndpoint(t *testing.T) {
	svc, ing := &corev1.Service{}, &networkingv1.Ingress{}
	leaving := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}
	problem := &Problem{api.ReasonApplyFailed, "services is forbidden"}
	cases := map[string]struct {
		f    Found
		want metav1.Condition
	}{
		"nothing":     {Found{}, no(api.ReasonEndpointPending, "The Service is not made yet.")},
		"no ingress":  {Found{Service: svc}, no(api.ReasonEndpointPending, "The Ingress is not made yet.")},
		"both":        {Found{Service: svc, Ingress: ing}, yes(api.ReasonEndpointReady, "Service and Ingress of web.example.com are in place.")},
		"leaving":     {Found{Service: svc, Ingress: leaving}, no(api.ReasonEndpointPending, "Service or Ingress is being deleted, a new one is made when it is gone.")},
		"bad service": {Found{Ingress: ing, ServiceProblem: problem}, no(api.ReasonApplyFailed, "services is forbidden")},
		"bad ingress": {Found{Service: svc, IngressProblem: problem}, no(api.ReasonApplyFailed, "services is forbidden")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { check(t, api.ConditionEndpointReady, Endpoint(assignment(), c.f), c.want) })
	}
}

func TestPod(t *testing.T) {
	unschedulable := with(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available: 3 Insufficient memory"})
	gated := with(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonSchedulingGated, Message: "Scheduling is blocked due to non-empty scheduling gates"})
	running := func(s corev1.ContainerStatus) *corev1.Pod {
		s.State.Running = &corev1.ContainerStateRunning{}
		return pod(phase(corev1.PodRunning, "", ""), state(s))
	}
	exit3 := corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}
	const pull = "The image registry/browser:1 can't be pulled: check its name, its pull secret and the registry (not found)."

	cases := map[string]struct {
		a    *api.SessionAssignment
		f    Found
		want metav1.Condition
	}{
		"not made":               {f: Found{}, want: no(api.ReasonPodPending, "The Pod is not made yet.")},
		"home refused":           {f: Found{HomeProblem: &Problem{}}, want: no(api.ReasonPodPending, "The Pod waits for the home.")},
		"refused":                {f: Found{PodProblem: &Problem{api.ReasonApplyFailed, "exceeded quota"}}, want: no(api.ReasonApplyFailed, "exceeded quota")},
		"suspended":              {a: assignment(suspended), f: Found{}, want: no(api.ReasonSuspended, "The session is suspended: set its operating mode to Running to go on.")},
		"suspending":             {a: assignment(suspended), f: Found{Pod: pod(readyPod, deletedPod)}, want: no(api.ReasonPodTerminating, "The Pod is being stopped by node n1.")},
		"terminating":            {f: Found{Pod: pod(readyPod, deletedPod)}, want: no(api.ReasonPodTerminating, "The Pod is being stopped by node n1.")},
		"terminating, unbound":   {f: Found{Pod: pod(unbind, deletedPod)}, want: no(api.ReasonPodTerminating, "The Pod is being removed.")},
		"unbound":                {f: Found{Pod: pod(unbind)}, want: no(api.ReasonPodPending, "The Pod waits for a node.")},
		"unschedulable":          {f: Found{Pod: pod(unbind, unschedulable)}, want: no(api.ReasonUnschedulablePod, "No node fits the Pod: 0/3 nodes are available: 3 Insufficient memory.")},
		"gated":                  {f: Found{Pod: pod(unbind, gated)}, want: no(api.ReasonPodPending, "The Pod waits for a node: Scheduling is blocked due to non-empty scheduling gates.")},
		"bound":                  {f: Found{Pod: pod()}, want: no(api.ReasonStarting, "The desktop starts on node n1.")},
		"creating":               {f: Found{Pod: pod(wait("ContainerCreating", ""))}, want: no(api.ReasonStarting, "The desktop starts on node n1.")},
		"image not found":        {f: Found{Pod: pod(wait("ErrImagePull", "not found"))}, want: no(api.ReasonImagePull, pull)},
		"image backoff":          {f: Found{Pod: pod(wait("ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: not found`))}, want: no(api.ReasonImagePull, pull)},
		"image name":             {f: Found{Pod: pod(wait("InvalidImageName", ""))}, want: no(api.ReasonImagePull, "The image registry/browser:1 can't be pulled: check its name, its pull secret and the registry (InvalidImageName).")},
		"container config":       {f: Found{Pod: pod(wait("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"))}, want: no(api.ReasonContainerError, "The container can't be made: CreateContainerConfigError: container has runAsNonRoot and image will run as root.")},
		"crash loop":             {f: Found{Pod: pod(crashed(exit3))}, want: no(api.ReasonCrashLoop, "The desktop ended with exit code 3, 4 times by now: look at its logs.")},
		"out of memory":          {f: Found{Pod: pod(crashed(corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}))}, want: no(api.ReasonCrashLoop, "The desktop ran out of its memory limit, 4 times by now: look at its logs.")},
		"signal":                 {f: Found{Pod: pod(crashed(corev1.ContainerStateTerminated{Signal: 11}))}, want: no(api.ReasonCrashLoop, "The desktop was ended by signal 11, 4 times by now: look at its logs.")},
		"crash loop, no history": {f: Found{Pod: pod(wait("CrashLoopBackOff", ""))}, want: no(api.ReasonCrashLoop, "The desktop ends again and again: look at its logs.")},
		"crashed once":           {f: Found{Pod: pod(state(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &exit3}}))}, want: no(api.ReasonStarting, "The desktop ended with exit code 3, it is started again.")},
		"running, not started":   {f: Found{Pod: running(corev1.ContainerStatus{})}, want: no(api.ReasonStarting, "The desktop runs on node n1 and does not answer on its port yet.")},
		"running, restarted": {f: Found{Pod: running(corev1.ContainerStatus{RestartCount: 2, LastTerminationState: corev1.ContainerState{Terminated: &exit3}})},
			want: no(api.ReasonStarting, "The desktop ended with exit code 3, it was started again (restart 2).")},
		"running, not answering": {f: Found{Pod: running(corev1.ContainerStatus{Started: ptr.To(true)})}, want: no(api.ReasonPodNotReady, "The desktop runs on node n1 but does not answer on its port.")},
		"ready":                  {f: Found{Pod: pod(readyPod)}, want: yes(api.ReasonPodReady, "The desktop runs on node n1.")},
		"evicted":                {f: Found{Pod: pod(phase(corev1.PodFailed, "Evicted", "The node was low on resource: memory."))}, want: no(api.ReasonPodFailed, "The Pod ended, a new one is made: Evicted: The node was low on resource: memory.")},
		"failed, exit code":      {f: Found{Pod: pod(phase(corev1.PodFailed, "", ""), state(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &exit3}}))}, want: no(api.ReasonPodFailed, "The Pod ended, a new one is made: ended with exit code 3.")},
		"succeeded":              {f: Found{Pod: pod(phase(corev1.PodSucceeded, "", ""))}, want: no(api.ReasonPodFailed, "The Pod ended, a new one is made: no reason was given.")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := c.a
			if a == nil {
				a = assignment()
			}
			check(t, api.ConditionPodReady, Pod(a, c.f), c.want)
		})
	}
}
