package scenarios

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// forces returns the scenarios that delete objects whose containers may still run.
func forces() []runner.Scenario {
	return []runner.Scenario{{Name: "pod-forced-away", Do: podForcedAway}}
}

// podForcedAway deletes the Pod of a Hold session by force while its node does not respond: until
// the kubelet reports the end, the desktop does not count as stopped. The node is lost for less
// long than the agent waits before it releases the workload's sessions there.
func podForcedAway(ctx context.Context, r *runner.Run) error {
	m := r.RandomMember()
	uid, name, err := createHold(ctx, r, m)
	if err != nil {
		return err
	}
	pods := m.ControlPlane.Client.CoreV1().Pods(workload.Namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the Pod: %w", err)
	}
	r.Record("%s: node %s is lost", m.Name, pod.Spec.NodeName)
	if err := m.ControlPlane.LoseNode(ctx, pod.Spec.NodeName); err != nil {
		return err
	}
	r.Cleanup(func() {
		if err := m.ControlPlane.RestoreNode(context.Background(), pod.Spec.NodeName); err != nil {
			r.Record("%s: node %s is not restored: %v", m.Name, pod.Spec.NodeName, err)
		}
	})
	r.Watch.With(func(c *checker.Checker, _ time.Time) { c.Ignore(pod.UID) })
	r.Record("%s: Pod %s is deleted by force", m.Name, name)
	if err := pods.Delete(ctx, name, *metav1.NewDeleteOptions(0)); err != nil {
		return fmt.Errorf("deleting the Pod by force: %w", err)
	}
	if err := r.Pause(ctx, time.Minute); err != nil {
		return err
	}
	now, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil || now.UID != pod.UID {
		return errors.Join(err, fmt.Errorf("G1: the Pod counts as stopped, and its kubelet has not reported that: it was %s, and is %q", pod.UID, now.UID))
	}
	return r.Await(ctx, "the session is where it was", func(c *checker.Checker) bool {
		return c.Session(uid).Cluster == m.Name && c.Session(uid).Placed == 1
	})
}

// createHold creates a session of mode Hold beside the workload's, in a member, and waits
// until it runs. It returns the name of its Pod.
func createHold(ctx context.Context, r *runner.Run, m *harness.Member) (types.UID, string, error) {
	s := workload.NewSession(r.Scenario.Name+"-held", 2)
	s.Spec.Placement.RequiredRegions = []string{m.Spec.Region}
	if err := r.Watch.Hub.Create(ctx, s); err != nil {
		return "", "", fmt.Errorf("creating %s: %w", s.Name, err)
	}
	return s.UID, v1alpha1.AssignmentName(s.Name, s.UID), r.Await(ctx, "the held session runs", runner.Running(s.UID))
}
