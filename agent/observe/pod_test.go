package observe

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestPod(t *testing.T) {
	unschedulable := with(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonUnschedulable, Message: "0/3 nodes are available: 3 Insufficient memory"})
	growing := func(change func(*Growth)) PodNode {
		g := Growth{Group: "desktops", Usual: 95 * time.Second}
		change(&g)
		return PodNode{Growth: g}
	}
	gated := with(corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse,
		Reason: corev1.PodReasonSchedulingGated, Message: "Scheduling is blocked due to non-empty scheduling gates"})
	running := func(s corev1.ContainerStatus) *corev1.Pod {
		s.State.Running = &corev1.ContainerStateRunning{}
		return pod(phase(corev1.PodRunning, "", ""), state(s))
	}
	oom := corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}
	exit3 := corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error"}
	const pull = "The image registry/browser:1 can't be pulled (not found): push it, or correct the template's image or its pull secret."
	const logs = ": check its logs, and correct the image or the template."
	const memory = ": raise the memory of the session or the template."
	const lostNode = "Node n1 does not answer: bring it back. If it is off for good, taint it node.kubernetes.io/out-of-service=nodeshutdown:NoExecute. " +
		"To delete the session without that confirmation, annotate it vdi.kasm.io/force-cleanup."

	cases := map[string]struct {
		a    *api.SessionAssignment
		f    Children
		want metav1.Condition
	}{
		"not made":              {f: Children{}, want: no(api.ReasonPodPending, "The Pod is not created yet.")},
		"home refused":          {f: Children{HomeProblem: &Problem{}}, want: no(api.ReasonPodPending, "The Pod waits for the home.")},
		"refused":               {f: Children{PodProblem: &Problem{Reason: api.ReasonApplyFailed, Message: "exceeded quota"}}, want: no(api.ReasonApplyFailed, "exceeded quota")},
		"suspended":             {a: assignment(suspended), f: Children{}, want: no(api.ReasonSuspended, "The session is suspended: set its operating mode to Running to go on.")},
		"suspending":            {a: assignment(suspended), f: Children{Pod: pod(readyPod, deletedPod)}, want: no(api.ReasonPodTerminating, "The Pod is being stopped by node n1.")},
		"terminating":           {f: Children{Pod: pod(readyPod, deletedPod)}, want: no(api.ReasonPodTerminating, "The Pod is being stopped by node n1.")},
		"terminating, unbound":  {f: Children{Pod: pod(unbind, deletedPod)}, want: no(api.ReasonPodTerminating, "The Pod is being removed.")},
		"lost":                  {f: Children{Pod: pod(), PodNode: PodNode{NodeLost: true}}, want: no(api.ReasonNodeLost, lostNode)},
		"lost while stopping":   {f: Children{Pod: pod(deletedPod), PodNode: PodNode{NodeLost: true}}, want: no(api.ReasonNodeLost, lostNode)},
		"lost, not yet noticed": {f: Children{Pod: pod(readyPod), PodNode: PodNode{NodeLost: true}}, want: yes(api.ReasonPodReady, "The desktop runs on node n1.")},
		"home in use":           {f: Children{OtherUser: "web-2"}, want: no(api.ReasonPodPending, "The Pod waits for the home.")},
		"secrets":               {f: Children{Secrets: []string{"a", "b"}}, want: no(api.ReasonSecretMissing, "The Pod waits for the hub to resend Secrets that are missing or were changed: a, b.")},
		"secrets, and it runs":  {f: Children{Pod: pod(readyPod), Secrets: []string{"a"}}, want: yes(api.ReasonPodReady, "The desktop runs on node n1.")},
		"no config":             {f: Children{ConfigProblem: &Problem{Reason: api.ReasonConflict, Message: "conflict"}}, want: no(api.ReasonConflict, "conflict")},
		"no budget":             {f: Children{Pod: pod(readyPod), BudgetProblem: &Problem{Reason: api.ReasonConflict, Message: "conflict"}}, want: no(api.ReasonConflict, "conflict")},
		"quota":                 {f: Children{PodProblem: &Problem{Reason: api.ReasonQuotaExceeded, Message: "full"}}, want: no(api.ReasonQuotaExceeded, "full")},
		"out of time":           {f: Children{PodProblem: &Problem{Reason: api.ReasonTimeExpired, Message: "over"}}, want: no(api.ReasonTimeExpired, "over")},
		"failed":                {a: assignment(hasFailed), f: Children{}, want: no(api.ReasonImagePull, "The image is gone.")},
		"failed, suspended":     {a: assignment(hasFailed, suspended), f: Children{}, want: no(api.ReasonImagePull, "The image is gone.")},
		"failed, not gone":      {a: assignment(hasFailed), f: Children{Pod: pod(unbind)}, want: no(api.ReasonPodTerminating, "The Pod is being removed.")},
		"failed, runs yet":      {a: assignment(hasFailed), f: Children{Pod: pod(readyPod)}, want: no(api.ReasonPodTerminating, "The Pod is being stopped by node n1.")},
		"tried again":           {a: assignment(retried), f: Children{}, want: no(api.ReasonPodPending, "The Pod is not created yet.")},
		"out of memory once":    {f: Children{Pod: pod(state(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &oom}}))}, want: no(api.ReasonOutOfMemory, "The desktop ran out of its memory limit and is started again"+memory)},
		"started after it":      {f: Children{Pod: running(corev1.ContainerStatus{RestartCount: 1, LastTerminationState: corev1.ContainerState{Terminated: &oom}})}, want: no(api.ReasonOutOfMemory, "The desktop ran out of its memory limit and was started again (restart 1)"+memory)},
		"unbound":               {f: Children{Pod: pod(unbind)}, want: no(api.ReasonPodPending, "The Pod waits for a node.")},
		"unschedulable":         {f: Children{Pod: pod(unbind, unschedulable)}, want: no(api.ReasonUnschedulablePod, "No node fits the Pod: 0/3 nodes are available: 3 Insufficient memory.")},
		"a node may be added": {f: Children{Pod: pod(unbind, unschedulable), PodNode: growing(func(*Growth) {})},
			want: no(api.ReasonNodeProvisioning, "No node has free capacity; node group desktops is adding one, usually 95 s.")},
		"no node is added": {f: Children{Pod: pod(unbind, unschedulable), PodNode: growing(func(g *Growth) { g.Failed = "it has 10 of 10 nodes: raise maxNodes of the MemberCluster" })},
			want: no(api.ReasonScaleUpFailed, "Node group desktops adds no node: it has 10 of 10 nodes: raise maxNodes of the MemberCluster.")},
		"before kube-scheduler has tried": {f: Children{Pod: pod(unbind), PodNode: growing(func(*Growth) {})}, want: no(api.ReasonPodPending, "The Pod waits for a node.")},
		"gated":                           {f: Children{Pod: pod(unbind, gated)}, want: no(api.ReasonPodPending, "The Pod waits for a node: Scheduling is blocked due to non-empty scheduling gates.")},
		"bound":                           {f: Children{Pod: pod()}, want: no(api.ReasonStarting, "The desktop starts on node n1.")},
		"creating":                        {f: Children{Pod: pod(wait("ContainerCreating", ""))}, want: no(api.ReasonStarting, "The desktop starts on node n1.")},
		"image not found":                 {f: Children{Pod: pod(wait("ErrImagePull", "not found"))}, want: no(api.ReasonImagePull, pull)},
		"image backoff":                   {f: Children{Pod: pod(wait("ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: not found`))}, want: no(api.ReasonImagePull, pull)},
		"image name":                      {f: Children{Pod: pod(wait("InvalidImageName", ""))}, want: no(api.ReasonImagePull, "The image registry/browser:1 can't be pulled (InvalidImageName): push it, or correct the template's image or its pull secret.")},
		"container config":                {f: Children{Pod: pod(wait("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"))}, want: no(api.ReasonContainerError, "The container can't be created (CreateContainerConfigError: container has runAsNonRoot and image will run as root): correct the template, or the objects that it names in the member.")},
		"crash loop":                      {f: Children{Pod: pod(crashed(exit3))}, want: no(api.ReasonCrashLoop, "The desktop ended with exit code 3, 4 times by now"+logs)},
		"out of memory":                   {f: Children{Pod: pod(crashed(corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}))}, want: no(api.ReasonOutOfMemory, "The desktop ran out of its memory limit, 4 times by now"+memory)},
		"signal":                          {f: Children{Pod: pod(crashed(corev1.ContainerStateTerminated{Signal: 11}))}, want: no(api.ReasonCrashLoop, "The desktop was ended by signal 11, 4 times by now"+logs)},
		"crash loop, no history":          {f: Children{Pod: pod(wait("CrashLoopBackOff", ""))}, want: no(api.ReasonCrashLoop, "The desktop ends repeatedly"+logs)},
		"crashed once":                    {f: Children{Pod: pod(state(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &exit3}}))}, want: no(api.ReasonStarting, "The desktop ended with exit code 3 and is started again.")},
		"running, not started":            {f: Children{Pod: running(corev1.ContainerStatus{})}, want: no(api.ReasonStarting, "The desktop runs on node n1 and does not answer on its port yet.")},
		"running, restarted": {f: Children{Pod: running(corev1.ContainerStatus{RestartCount: 2, LastTerminationState: corev1.ContainerState{Terminated: &exit3}})},
			want: no(api.ReasonStarting, "The desktop ended with exit code 3 and was started again (restart 2).")},
		"running, not answering": {f: Children{Pod: running(corev1.ContainerStatus{Started: ptr.To(true)})}, want: no(api.ReasonPodNotReady, "The desktop runs on node n1 but does not answer on its port: check its logs, and correct the image or the template's port.")},
		"ready":                  {f: Children{Pod: pod(readyPod)}, want: yes(api.ReasonPodReady, "The desktop runs on node n1.")},
		"evicted":                {f: Children{Pod: pod(phase(corev1.PodFailed, "Evicted", "The node was low on resource: memory."))}, want: no(api.ReasonEvicted, "Node n1 was short of a resource and evicted the Pod, a new one is created (The node was low on resource: memory): raise the desktop's resources, or add capacity to the member's nodes.")},
		"failed, exit code":      {f: Children{Pod: pod(phase(corev1.PodFailed, "", ""), state(corev1.ContainerStatus{State: corev1.ContainerState{Terminated: &exit3}}))}, want: no(api.ReasonPodFailed, "The Pod ended, a new one is created (ended with exit code 3): check the Pod's logs and its node, and correct the template.")},
		"succeeded":              {f: Children{Pod: pod(phase(corev1.PodSucceeded, "", ""))}, want: no(api.ReasonPodFailed, "The Pod ended, a new one is created (no reason was given): check the Pod's logs and its node, and correct the template.")},
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
