package harness_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

// TestBehaviors checks how KWOK's stages simulate Pods that fail, and Pods of a lost node.
func TestBehaviors(t *testing.T) {
	takesLong(t)
	ctx := testContext(t)
	cp := startControlPlane(ctx, t, harness.ControlPlaneOptions{
		Nodes:      []kwok.NodeGroup{{Count: 2, Region: "eu-west", Zone: "eu-west-a"}},
		Namespaces: map[string]map[string]string{"desktops": {}},
	})
	if err := cp.WaitNodesReady(ctx, 2); err != nil {
		t.Fatal(err)
	}
	seen := watchPods(ctx, t, cp)
	for name, b := range behaviors {
		createPod(ctx, t, cp, pod(name, b.image, b.annotations))
	}
	for name, b := range behaviors {
		t.Run(name+" ends", func(t *testing.T) {
			eventually(ctx, t, podIs(cp, name, b.ends))
		})
	}
	t.Run("a Pod that has ended is not written", func(t *testing.T) {
		expectNoWrites(ctx, t, cp, slices.Collect(maps.Keys(behaviors))...)
	})
	// By now the watch has delivered all statuses.
	t.Run("only some are ready on the way", func(t *testing.T) {
		for name, b := range behaviors {
			if was := slices.ContainsFunc(seen.of(name), ready); was != b.ready {
				t.Errorf("%s was ready at some time: %t, want %t", name, was, b.ready)
			}
		}
	})
	t.Run("a crashing container crashes repeatedly", func(t *testing.T) {
		for _, name := range []string{"crash", "oom", "oom-by-annotation"} {
			if got, want := restarts(seen.of(name)), []int32{0, 1, 2, 3, 4, 5, 6}; !slices.Equal(got, want) {
				t.Errorf("%s was restarted %v times, want %v", name, got, want)
			}
		}
	})
	t.Run("a lost node", func(t *testing.T) { testLostNode(ctx, t, cp) })
}

// behaviors maps the name of a Pod to its spec, whether the Pod is ready at some time, and
// how it ends.
var behaviors = map[string]struct {
	image       string
	annotations map[string]string
	ready       bool
	ends        func(*corev1.Pod) bool
}{
	"badname":  {image: "badname.invalid/Desktop:1", ends: waitsFor("InvalidImageName")},
	"loopback": {image: "loopback.invalid/desktop:1", ready: true, ends: isLocal},
	"config-error": {image: "config-error.invalid/desktop:1", ends: func(pod *corev1.Pod) bool {
		return waitsFor("CreateContainerConfigError")(pod) && pod.Status.ContainerStatuses[0].State.Waiting.Message == `secret "missing" not found`
	}},
	"evicted": {image: "evicted.invalid/desktop:1", ready: true, ends: isEvicted},
	"crash":   {image: "crash.invalid/desktop:1", ready: true, ends: keepsEnding("Error", 1)},
	"oom":     {image: "oom.invalid/desktop:1", ends: keepsEnding("OOMKilled", 137)},
	"oom-by-annotation": {
		image: "registry.example/desktop:1", annotations: map[string]string{"harness.vdi.kasm.io/behavior": "out-of-memory"},
		ends: keepsEnding("OOMKilled", 137),
	},
}

func isLocal(pod *corev1.Pod) bool {
	return podReady(pod) && pod.Status.PodIP == "127.0.0.1" && slices.Equal(pod.Status.PodIPs, []corev1.PodIP{{IP: "127.0.0.1"}})
}

func isEvicted(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted" &&
		strings.Contains(pod.Status.Message, "low on resource: memory") &&
		pod.Status.ContainerStatuses[0].State.Terminated != nil && pod.Status.ContainerStatuses[0].State.Running == nil
}

func keepsEnding(reason string, exitCode int32) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		if !waitsFor("CrashLoopBackOff")(pod) || podReady(pod) {
			return false
		}
		s := pod.Status.ContainerStatuses[0]
		last := s.LastTerminationState.Terminated
		return s.RestartCount >= 6 && last != nil && last.Reason == reason && last.ExitCode == exitCode
	}
}

func testLostNode(ctx context.Context, t *testing.T, cp *harness.ControlPlane) {
	pods := cp.Client.CoreV1().Pods("desktops")
	createPod(ctx, t, cp, pod("stranded", "registry.example/desktop:1", nil))
	node := ""
	eventually(ctx, t, podIs(cp, "stranded", func(pod *corev1.Pod) bool { node = pod.Spec.NodeName; return podReady(pod) }))
	// The node controller writes this, and a kubelet that runs corrects it.
	notReady := []byte(`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`)
	if _, err := pods.Patch(ctx, "stranded", types.StrategicMergePatchType, notReady, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, podIs(cp, "stranded", podReady))
	onNode := func(name, image string) {
		p := pod(name, image, nil)
		p.Spec.NodeName = node
		createPod(ctx, t, cp, p)
	}
	onNode("deserted", "registry.example/desktop:1")
	onNode("hopeless", "broken.invalid/desktop:1")
	eventually(ctx, t, podIs(cp, "deserted", podReady))
	eventually(ctx, t, podIs(cp, "hopeless", waitsFor("ImagePullBackOff")))

	if err := cp.LoseNode(ctx, node); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, nodeIs(cp, node, corev1.ConditionUnknown, true))
	for _, name := range []string{"stranded", "deserted"} {
		if err := podIs(cp, name, func(pod *corev1.Pod) bool { return !podReady(pod) })(ctx); err != nil {
			t.Error(err)
		}
	}
	if err := pods.Delete(ctx, "stranded", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expectNoWrites(ctx, t, cp, "stranded", "deserted", "hopeless")
	if err := podIs(cp, "stranded", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })(ctx); err != nil {
		t.Error(err)
	}
	if err := nodeIs(cp, node, corev1.ConditionUnknown, true)(ctx); err != nil {
		t.Errorf("it did not stay lost: %v", err)
	}

	if err := cp.RestoreNode(ctx, node); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, podGone(cp, "stranded"))
	eventually(ctx, t, podIs(cp, "deserted", podReady))
	eventually(ctx, t, nodeIs(cp, node, corev1.ConditionTrue, false))
	if err := cp.WaitNodesReady(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if err := podIs(cp, "hopeless", func(pod *corev1.Pod) bool {
		return !ready(pod.Status) && waitsFor("ImagePullBackOff")(pod)
	})(ctx); err != nil {
		t.Errorf("what never was ready is made so: %v", err)
	}
	if err := pods.Delete(ctx, "deserted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, podGone(cp, "deserted"))
}

// nodeIs checks a node's condition Ready, and whether it has the taint of an unreachable
// node.
func nodeIs(cp *harness.ControlPlane, name string, ready corev1.ConditionStatus, unreachable bool) func(context.Context) error {
	return func(ctx context.Context) error {
		node, err := cp.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		tainted := slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeUnreachable })
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == ready && tainted == unreachable {
				return nil
			}
		}
		return fmt.Errorf("node %s: taints %v, conditions %+v", name, node.Spec.Taints, node.Status.Conditions)
	}
}

// history holds every status that Pods have had, by name.
type history struct {
	mutex    sync.Mutex
	statuses map[string][]corev1.PodStatus
}

func watchPods(ctx context.Context, t *testing.T, cp *harness.ControlPlane) *history {
	t.Helper()
	h := &history{statuses: map[string][]corev1.PodStatus{}}
	watch, err := cp.Client.CoreV1().Pods("desktops").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(watch.Stop)
	go func() {
		for event := range watch.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok {
				h.mutex.Lock()
				h.statuses[pod.Name] = append(h.statuses[pod.Name], pod.Status)
				h.mutex.Unlock()
			}
		}
	}()
	return h
}

func (h *history) of(name string) []corev1.PodStatus {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return slices.Clone(h.statuses[name])
}

func ready(status corev1.PodStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// restarts returns the restart counts that a Pod's first container has had.
func restarts(statuses []corev1.PodStatus) []int32 {
	var counts []int32
	for _, status := range statuses {
		if len(status.ContainerStatuses) > 0 {
			counts = append(counts, status.ContainerStatuses[0].RestartCount)
		}
	}
	return slices.Compact(counts)
}

// quietPeriod is longer than the delay of any stage of a Pod.
const quietPeriod = 3 * time.Second

// expectNoWrites fails if the Pods are written to for a while: a stage that repeats itself would
// load every test.
func expectNoWrites(ctx context.Context, t *testing.T, cp *harness.ControlPlane, names ...string) {
	t.Helper()
	versions := func() map[string]string {
		all := map[string]string{}
		for _, name := range names {
			pod, err := cp.Client.CoreV1().Pods("desktops").Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			all[name] = pod.ResourceVersion
		}
		return all
	}
	before := versions()
	for end := time.After(quietPeriod); ; {
		select {
		case <-ctx.Done():
			t.Fatal(ctx.Err())
		case <-end:
			return
		case <-time.After(quietPeriod / 10):
			if after := versions(); !maps.Equal(after, before) {
				t.Fatalf("Pods are still written: %v, before %v", after, before)
			}
		}
	}
}
