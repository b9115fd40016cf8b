package render

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var testGuard = Guard{
	Image: "registry.example.com/agent:1", LeaseURL: "http://vdi-agent-lease.vdi-system.svc:8082", Key: "AAAA", Port: 8079, TimeFactor: 1,
}

func fenced(a *api.SessionAssignment) {
	a.Spec.FailoverMode = api.FailoverFence
	a.Spec.Desktop.Home = api.AssignedHome{}
}

func TestAGuardRequestsNoMoreThanWasPlaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := assignment(fenced, func(a *api.SessionAssignment) {
			r := corev1.ResourceList{}
			if rapid.Bool().Draw(t, "cpu") {
				r[corev1.ResourceCPU] = *resource.NewMilliQuantity(rapid.Int64Range(1, 64000).Draw(t, "milli"), resource.DecimalSI)
			}
			if rapid.Bool().Draw(t, "memory") {
				r[corev1.ResourceMemory] = *resource.NewQuantity(rapid.Int64Range(1, 1<<40).Draw(t, "bytes"), resource.BinarySI)
			}
			r["nvidia.com/gpu"] = resource.MustParse("1")
			a.Spec.Desktop.Resources = r
		})
		before := a.DeepCopy()
		pod := GuardedPod(a, testGuard)
		desktop, guard := pod.Spec.Containers[0].Resources, pod.Spec.InitContainers[0].Resources
		for name, requested := range before.Spec.Desktop.Resources {
			for what, lists := range map[string][2]corev1.ResourceList{
				"requests": {desktop.Requests, guard.Requests}, "limits": {desktop.Limits, guard.Limits},
			} {
				sum, share := lists[0][name].DeepCopy(), lists[1][name]
				sum.Add(share)
				if sum.Cmp(requested) != 0 || lists[0].Name(name, resource.DecimalSI).Cmp(share) < 0 {
					t.Errorf("%s of %s: the desktop has %v, its guard %v, placed were %v", what, name, lists[0][name], share, requested)
				}
			}
		}
		if got := DesktopHash(a); got != pod.Annotations[AnnotationDesktopHash] || got != DesktopHash(before) {
			t.Error("the guard's share changed the desktop's hash, which would replace each Pod")
		}
	})
}

func TestTheKubeletProbesTheGuardOnly(t *testing.T) {
	pod := GuardedPod(assignment(fenced), testGuard)
	desktop := pod.Spec.Containers[0]
	if desktop.StartupProbe != nil {
		t.Error("while a startup probe runs, the lease is not probed")
	}
	if desktop.LivenessProbe.HTTPGet == nil || desktop.LivenessProbe.TerminationGracePeriodSeconds != nil {
		t.Errorf("the desktop's life hangs on %+v", desktop.LivenessProbe)
	}
	if pod.Spec.RestartPolicy != corev1.RestartPolicyNever || pod.Spec.InitContainers[0].StartupProbe == nil {
		t.Error("a desktop whose lease is over would be started again")
	}
	if !Guarded(pod) || Guarded(Pod(assignment(fenced))) {
		t.Error("a Pod with a guard is not recognized")
	}
}

func TestAGuardReachesItsAgentAsLongAsItRuns(t *testing.T) {
	n := Network{AgentNamespace: "agents", LeasePort: 8082}
	rules := func(change ...func(*api.SessionAssignment)) int {
		return len(NetworkPolicy(assignment(change...), n).Spec.Egress)
	}
	plain := rules()
	guarded := func(a *api.SessionAssignment) { a.Status.Guarded = true }
	if rules(fenced) != plain+1 || rules(guarded) != plain+1 {
		t.Errorf("fenced it has %d rules, once fenced %d, and never fenced %d", rules(fenced), rules(guarded), plain)
	}
	if held := rules(held); held != plain+1 {
		t.Errorf("a gate has %d rules to reach its agent by, and none of them", held)
	}
	if n.LeasePort = 0; rules(fenced) != plain {
		t.Error("without guards the agent can be reached")
	}
}

func TestAGuardDoesNotTakeTheDesktopsPort(t *testing.T) {
	for _, port := range []int32{testGuard.Port, 65535} {
		g := testGuard
		g.Port = port
		pod := GuardedPod(assignment(fenced, func(a *api.SessionAssignment) { a.Spec.Desktop.Port = port }), g)
		probed := pod.Spec.Containers[0].LivenessProbe.HTTPGet.Port.IntVal
		if probed == port || probed < 1 || pod.Spec.InitContainers[0].StartupProbe.HTTPGet.Port.IntVal != probed {
			t.Errorf("beside a desktop on port %d the guard has port %d", port, probed)
		}
		if !slices.ContainsFunc(pod.Spec.InitContainers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, "--port=") && arg != "--port=8079" }) && port == 8079 {
			t.Errorf("the guard gets %v", pod.Spec.InitContainers[0].Args)
		}
	}
}

func TestTheFactorScalesTheTimingsOfTheLease(t *testing.T) {
	for factor, want := range map[float64][2]int64{1: {5, 30}, 0.1: {1, 3}, 0.01: {1, 1}, 3: {15, 30}} {
		g := testGuard
		g.TimeFactor = factor
		pod := GuardedPod(assignment(fenced), g)
		got := [2]int64{int64(pod.Spec.Containers[0].LivenessProbe.PeriodSeconds), *pod.Spec.TerminationGracePeriodSeconds}
		if got != want {
			t.Errorf("with factor %v the period and the grace are %v seconds, want %v", factor, got, want)
		}
	}
}
