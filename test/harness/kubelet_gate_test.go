package harness_test

import (
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/test/harness/kubelet"
	"github.com/vdi-fleet/vdi-fleet/test/observer"
)

// fakeGate exits with 0 once a file exists.
func fakeGate(flags map[string]string) error {
	for {
		if _, err := os.Stat(flags["lease"]); err == nil {
			os.Exit(0)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// gated adds a gate to a desktop, which opens once the file of its lease exists.
func (n machines) gated(p *corev1.Pod) {
	p.Spec.InitContainers = []corev1.Container{{
		Name: kubelet.GateContainer, Image: "registry.example/agent:1", Command: []string{"/agent", "gate"},
		Args: []string{"--lease=" + n.lease(p.Name)},
	}}
}

// A kubelet runs a gate at each start of a Pod's sandbox and at no other time: so a desktop
// that would restart after a power cut has to wait.
func TestKubeletKeepsGates(t *testing.T) {
	takesLong(t)
	ctx := testContext(t)
	n := startNodes(ctx, t)
	atGate := func(p *corev1.Pod) bool {
		inits := p.Status.InitContainerStatuses
		return p.Status.Phase == corev1.PodPending && len(inits) == 1 && inits[0].State.Running != nil && !podReady(p)
	}
	createPod(ctx, t, n.ControlPlane, n.desktop("gated", n.gated))
	createPod(ctx, t, n.ControlPlane, n.desktop("deleted", n.gated))
	for _, name := range []string{"gated", "deleted"} {
		eventually(ctx, t, podIs(n.ControlPlane, name, atGate))
		must(t, n.runsAre(name, "vdi-gate")(ctx))
	}
	n.grant(t, "gated")
	eventually(ctx, t, podIs(n.ControlPlane, "gated", podReady))
	must(t, n.runsAre("gated", "vdi-gate+0, desktop")(ctx))
	must(t, n.Client.CoreV1().Pods("desktops").Delete(ctx, "deleted", metav1.DeleteOptions{}))
	eventually(ctx, t, podGone(n.ControlPlane, "deleted"))
	must(t, n.runsAre("deleted", "vdi-gate+143")(ctx))

	// A desktop that ends by itself does not wait again.
	n.grant(t, "crashing")
	createPod(ctx, t, n.ControlPlane, n.desktop("crashing", n.gated, func(p *corev1.Pod) { p.Spec.Containers[0].Image = "crash.invalid/desktop:1" }))
	eventually(ctx, t, podIs(n.ControlPlane, "crashing", func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount > 0
	}))
	runs, err := n.runs("crashing")
	must(t, err)
	if gates := slices.DeleteFunc(runs, func(r observer.Run) bool { return r.Container != kubelet.GateContainer }); len(gates) != 1 {
		t.Errorf("it went through its gate %d times", len(gates))
	}

	must(t, os.Remove(n.lease("gated")))
	must(t, n.PowerOffNodes())
	must(t, n.runsAre("gated", "vdi-gate+0, desktop+cut")(ctx))
	must(t, n.PowerOnNodes(ctx))
	eventually(ctx, t, podIs(n.ControlPlane, "gated", atGate))
	must(t, n.runsAre("gated", "vdi-gate+0, desktop+cut, vdi-gate")(ctx))
	n.grant(t, "gated")
	eventually(ctx, t, podIs(n.ControlPlane, "gated", podReady))
	must(t, n.runsAre("gated", "vdi-gate+0, desktop+cut, vdi-gate+0, desktop")(ctx))
}
