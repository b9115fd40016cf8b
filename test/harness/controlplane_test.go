package harness_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

// deadline is generous: it only bounds a test that hangs.
const deadline = 2 * time.Minute

func TestControlPlane(t *testing.T) {
	takesLong(t)
	ctx := testContext(t)
	cp := startControlPlane(ctx, t, harness.ControlPlaneOptions{
		Nodes:      []kwok.NodeGroup{{Count: 3, Region: "eu-west", Zone: "eu-west-a"}},
		Namespaces: map[string]map[string]string{"desktops": {"team": "a"}},
	})
	if err := cp.WaitNodesReady(ctx, 3); err != nil {
		t.Fatal(err)
	}

	t.Run("runs a Pod on a simulated node and removes it on deletion", func(t *testing.T) {
		createPod(ctx, t, cp, pod("plain", "registry.example/desktop:1", nil))
		eventually(ctx, t, podIs(cp, "plain", func(pod *corev1.Pod) bool {
			return podReady(pod) && pod.Status.PodIP != "" && strings.HasPrefix(pod.Spec.NodeName, "node-eu-west-a-")
		}))
		if err := cp.Client.CoreV1().Pods("desktops").Delete(ctx, "plain", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, podGone(cp, "plain"))
	})

	t.Run("binds a claim and deletes its volume with it", func(t *testing.T) {
		claims := cp.Client.CoreV1().PersistentVolumeClaims("desktops")
		if _, err := claims.Create(ctx, claim("home"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, func(ctx context.Context) error {
			claim, err := claims.Get(ctx, "home", metav1.GetOptions{})
			if err == nil && claim.Status.Phase != corev1.ClaimBound {
				return fmt.Errorf("claim is %s", claim.Status.Phase)
			}
			return err
		})
		if err := claims.Delete(ctx, "home", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, func(ctx context.Context) error {
			volumes, err := cp.Client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
			if err == nil && len(volumes.Items) != 0 {
				return fmt.Errorf("volume is %s", volumes.Items[0].Status.Phase)
			}
			return err
		})
	})

	t.Run("plays a Pod whose image cannot be pulled, and its mending", func(t *testing.T) {
		createPod(ctx, t, cp, pod("broken", "broken.invalid/desktop:1", nil))
		createPod(ctx, t, cp, pod("broken-by-annotation", "registry.example/desktop:1",
			map[string]string{"harness.vdi.kasm.io/behavior": "pull-error"}))
		eventually(ctx, t, podIs(cp, "broken", waitsFor("ImagePullBackOff")))
		eventually(ctx, t, podIs(cp, "broken-by-annotation", waitsFor("ImagePullBackOff")))
		patch := []byte(`{"spec":{"containers":[{"name":"desktop","image":"registry.example/desktop:1"}]}}`)
		if _, err := cp.Client.CoreV1().Pods("desktops").Patch(ctx, "broken",
			"application/strategic-merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, podIs(cp, "broken", podReady))
	})

	t.Run("plays a Pod that crashes", func(t *testing.T) {
		createPod(ctx, t, cp, pod("crash", "crash.invalid/desktop:1", nil))
		eventually(ctx, t, podIs(cp, "crash", func(pod *corev1.Pod) bool {
			return waitsFor("CrashLoopBackOff")(pod) && !podReady(pod) &&
				pod.Status.ContainerStatuses[0].RestartCount > 0 &&
				pod.Status.ContainerStatuses[0].LastTerminationState.Terminated != nil
		}))
	})

	t.Run("plays a Pod that starts slowly and stops slowly", func(t *testing.T) {
		createPod(ctx, t, cp, pod("slow", "slow.invalid/desktop:1", map[string]string{
			"harness.vdi.kasm.io/start-delay": "1s",
			"harness.vdi.kasm.io/stop-delay":  "1s",
		}))
		eventually(ctx, t, podIs(cp, "slow", waitsFor("ContainerCreating")))
		eventually(ctx, t, podIs(cp, "slow", podReady))
		if err := cp.Client.CoreV1().Pods("desktops").Delete(ctx, "slow", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, podIs(cp, "slow", func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }))
		eventually(ctx, t, podGone(cp, "slow"))
	})

	t.Run("admits users by certificate, and none without", func(t *testing.T) {
		testUsers(ctx, t, cp)
	})

	t.Run("counts writes by user", func(t *testing.T) {
		testAudit(ctx, t, cp)
	})

	t.Run("keeps its data when killed, paused and restarted", func(t *testing.T) {
		testProcesses(ctx, t, cp)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// takesLong skips a test except in make test-all: its control planes take a while.
func takesLong(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: make test-all runs it")
	}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return ctx
}

func startControlPlane(ctx context.Context, t *testing.T, options harness.ControlPlaneOptions) *harness.ControlPlane {
	t.Helper()
	start := time.Now()
	cp, err := harness.StartControlPlane(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%s ready after %s", cp.Name, time.Since(start).Round(time.Millisecond))
	return cp
}

// eventually polls until check returns nil or ctx ends.
func eventually(ctx context.Context, t *testing.T, check func(context.Context) error) {
	t.Helper()
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%v (%v)", err, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func pod(name, image string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "desktops", Annotations: annotations},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "desktop", Image: image,
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("500m"),
			}},
		}}},
	}
}

func claim(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "desktops"},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi"),
			}},
		},
	}
}

// createPod retries while the namespace has no service account yet.
func createPod(ctx context.Context, t *testing.T, cp *harness.ControlPlane, pod *corev1.Pod) {
	t.Helper()
	eventually(ctx, t, func(ctx context.Context) error {
		_, err := cp.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

func podIs(cp *harness.ControlPlane, name string, is func(*corev1.Pod) bool) func(context.Context) error {
	return func(ctx context.Context) error {
		pod, err := cp.Client.CoreV1().Pods("desktops").Get(ctx, name, metav1.GetOptions{})
		if err == nil && !is(pod) {
			return fmt.Errorf("pod %s: %+v", name, pod.Status)
		}
		return err
	}
}

func podGone(cp *harness.ControlPlane, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		if _, err := cp.Client.CoreV1().Pods("desktops").Get(ctx, name, metav1.GetOptions{}); err == nil {
			return errors.New("pod is still there")
		}
		return nil
	}
}

func podReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue && pod.Status.Phase == corev1.PodRunning
		}
	}
	return false
}

func waitsFor(reason string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		for _, status := range pod.Status.ContainerStatuses {
			if status.State.Waiting != nil && status.State.Waiting.Reason == reason {
				return true
			}
		}
		return false
	}
}
