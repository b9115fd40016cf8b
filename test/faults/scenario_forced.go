package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// forces takes objects away of which something may still run.
func forces() []scenario {
	return []scenario{{name: "pod-forced-away", do: podForcedAway}}
}

// podForcedAway deletes the Pod of a held session by force while its node does not
// answer: as long as the kubelet has not reported the end, it is no stop. The workload's
// sessions on that node are lost for less long than the agent gives them back after.
func podForcedAway(ctx context.Context, r *run) error {
	m := r.member()
	uid, name, err := r.held(ctx, m)
	if err != nil {
		return err
	}
	pods := m.ControlPlane.Client.CoreV1().Pods(namespace)
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the Pod: %w", err)
	}
	r.harm("%s: node %s is lost", m.Name, pod.Spec.NodeName)
	if err := m.ControlPlane.LoseNode(ctx, pod.Spec.NodeName); err != nil {
		return err
	}
	r.finally(func() {
		if err := m.ControlPlane.RestoreNode(context.Background(), pod.Spec.NodeName); err != nil {
			r.harm("%s: node %s is not restored: %v", m.Name, pod.Spec.NodeName, err)
		}
	})
	r.watch.heard(func(c *checker, _ time.Time) { c.excused[pod.UID] = true })
	r.harm("%s: Pod %s is deleted by force", m.Name, name)
	if err := pods.Delete(ctx, name, *metav1.NewDeleteOptions(0)); err != nil {
		return fmt.Errorf("deleting the Pod by force: %w", err)
	}
	if err := r.pause(ctx, time.Minute); err != nil {
		return err
	}
	now, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil || now.UID != pod.UID {
		return errors.Join(err, fmt.Errorf("promise 1: the Pod counts as stopped, and its kubelet has not reported that: it was %s, and is %q", pod.UID, now.UID))
	}
	return r.await(ctx, "the session is where it was", func(c *checker) bool {
		return c.sessions[uid].Cluster == m.Name && c.sessions[uid].Placed == 1
	})
}

// held creates a session of mode Hold beside the workload's, in a member, and waits
// until it runs. It returns the name of its Pod.
func (r *run) held(ctx context.Context, m *harness.Member) (types.UID, string, error) {
	s := r.work.newSession(0, 2)
	s.Name = r.scenario.name + "-held"
	s.Spec.Placement.RequiredRegions = []string{m.Spec.Region}
	if err := r.watch.hub.Create(ctx, s); err != nil {
		return "", "", fmt.Errorf("creating %s: %w", s.Name, err)
	}
	return s.UID, v1alpha1.AssignmentName(s.Name, s.UID), r.await(ctx, "the held session runs", runs(s.UID))
}
