package faults

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// loads makes haste.
func loads() []scenario {
	return []scenario{
		{name: "sigterm-under-load", ends: true, size: 40, do: sigterm},
		{name: "status-storm", size: 40, do: statusStorm},
	}
}

// sigterm asks the leader and an agent to end, as a rollout does.
func sigterm(ctx context.Context, r *run) error {
	for range rounds {
		if err := r.moment(ctx, 20*time.Second); err != nil {
			return err
		}
		leader, err := r.leader(ctx)
		if err != nil {
			return err
		}
		m := r.member()
		for _, p := range []*harness.Process{leader.Process, m.Agent.Process} {
			asked := time.Now()
			if err := p.Stop(); err != nil {
				return err
			}
			r.harm("SIGTERM %s, which ended after %s", p.Spec.Name, time.Since(asked).Round(time.Millisecond))
		}
	}
	return nil
}

// What a storm is: so many changes a second, of Pods' readiness, each of which
// is a new status of its assignment.
const (
	stormRate = 1000
	stormTime = 10 * time.Second
	stormers  = 16
)

// statusStorm changes the readiness of a member's Pods over and over.
func statusStorm(ctx context.Context, r *run) error {
	if err := r.pause(ctx, 20*time.Second); err != nil {
		return err
	}
	m := r.member()
	pods, err := m.ControlPlane.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(pods.Items) == 0 {
		return fmt.Errorf("no Pods in %s to change: %w", m.Name, err)
	}
	names := make([]string, 0, len(pods.Items))
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	began := time.Now()
	changed := 0
	for time.Since(began) < stormTime {
		group, gctx := errgroup.WithContext(ctx)
		group.SetLimit(stormers)
		for i := range stormRate / 10 {
			ready := corev1.ConditionStatus("True")
			if (changed+i)/len(names)%2 == 0 {
				ready = "False"
			}
			group.Go(func() error { return setReady(gctx, m, names[i%len(names)], ready) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
		changed += stormRate / 10
		if ahead := time.Duration(changed)*time.Second/stormRate - time.Since(began); ahead > 0 {
			if err := sleep(ctx, ahead); err != nil {
				return err
			}
		}
	}
	r.harm("%s: %d changes of %d Pods' readiness, %.0f a second", m.Name, changed, len(names), float64(changed)/time.Since(began).Seconds())
	// At last all are ready, as their simulated kubelet would say.
	for _, name := range names {
		if err := setReady(ctx, m, name, corev1.ConditionTrue); err != nil {
			return err
		}
	}
	return nil
}

func setReady(ctx context.Context, m *harness.Member, pod string, ready corev1.ConditionStatus) error {
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, ready)
	_, err := m.ControlPlane.Client.CoreV1().Pods(namespace).Patch(ctx, pod, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) {
		return nil // its session has ended meanwhile
	}
	return err
}
