package harness_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// TestBehaviours: what a simulated kubelet makes of Pods that are up to no good.
func TestBehaviours(t *testing.T) {
	ctx := testContext(t)
	cp := startControlPlane(ctx, t, harness.ControlPlaneOptions{
		Nodes:      []harness.NodeGroup{{Count: 2, Region: "eu-west", Zone: "eu-west-a"}},
		Namespaces: map[string]map[string]string{"desktops": {}},
	})
	if err := cp.WaitNodesReady(ctx, 2); err != nil {
		t.Fatal(err)
	}
	cases := map[string]func(*corev1.Pod) bool{
		"badname.invalid/Desktop:1":      waitsFor("InvalidImageName"),
		"config-error.invalid/desktop:1": waitsFor("CreateContainerConfigError"),
		"loopback.invalid/desktop:1":     func(pod *corev1.Pod) bool { return podReady(pod) && pod.Status.PodIP == "127.0.0.1" },
		"evicted.invalid/desktop:1": func(pod *corev1.Pod) bool {
			return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted" && pod.Status.Message != ""
		},
		"oom.invalid/desktop:1": func(pod *corev1.Pod) bool {
			if len(pod.Status.ContainerStatuses) == 0 {
				return false
			}
			s := pod.Status.ContainerStatuses[0]
			return waitsFor("CrashLoopBackOff")(pod) && s.RestartCount == 5 && s.LastTerminationState.Terminated.Reason == "OOMKilled"
		},
	}
	names := map[string]string{}
	for image := range cases {
		names[image] = fmt.Sprintf("case-%d", len(names))
		createPod(ctx, t, cp, pod(names[image], image, nil))
	}
	for image, holds := range cases {
		t.Run(image, func(t *testing.T) {
			eventually(ctx, t, podIs(cp, names[image], holds))
			standsStill(ctx, t, cp, names[image])
		})
	}

	t.Run("a lost node is not Ready, and keeps its Pods", func(t *testing.T) {
		createPod(ctx, t, cp, pod("stranded", "registry.example/desktop:1", nil))
		node := ""
		eventually(ctx, t, podIs(cp, "stranded", func(pod *corev1.Pod) bool { node = pod.Spec.NodeName; return podReady(pod) }))
		if err := cp.LoseNode(ctx, node); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, podIs(cp, "stranded", func(pod *corev1.Pod) bool { return !podReady(pod) }))
		if err := cp.Client.CoreV1().Pods("desktops").Delete(ctx, "stranded", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		standsStill(ctx, t, cp, "stranded")
		if err := cp.RestoreNode(ctx, node); err != nil {
			t.Fatal(err)
		}
		eventually(ctx, t, podGone(cp, "stranded"))
		if err := cp.WaitNodesReady(ctx, 2); err != nil {
			t.Fatal(err)
		}
	})
}

// standsStill fails if anybody writes to the Pod within a second: a stage that
// plays again and again would load every test.
func standsStill(ctx context.Context, t *testing.T, cp *harness.ControlPlane, name string) {
	t.Helper()
	version := func() string {
		pod, err := cp.Client.CoreV1().Pods("desktops").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return pod.ResourceVersion
	}
	before := version()
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	if after := version(); after != before {
		t.Errorf("Pod %s is written again and again", name)
	}
}
