package runner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// KillAPIServer kills a member's API server and leaves it down.
func KillAPIServer(r *Run, m *harness.Member) error {
	r.RecordOutage(m.Name)
	r.Record("kill -9 %s, which stays down; the agent lives", m.ControlPlane.APIServer.Spec.Name)
	return m.ControlPlane.APIServer.Kill()
}

// RestartAPIServer starts a member's API server again, and watches it again.
func RestartAPIServer(ctx context.Context, r *Run, m *harness.Member) error {
	r.Record("%s starts again", m.ControlPlane.APIServer.Spec.Name)
	if err := stage.RestartAfterOutage(ctx, m.ControlPlane); err != nil {
		return err
	}
	return r.Watch.WatchAgain(m)
}

// ShuffledMembers returns the members in an order that the seed fixes.
func ShuffledMembers(r *Run) []*harness.Member {
	members := append([]*harness.Member(nil), r.Fleet.Members...)
	r.Random.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	return members
}

// CreateMember creates a MemberCluster that takes no sessions, and deletes it after the scenario.
func CreateMember(ctx context.Context, r *Run, name string) (types.UID, error) {
	mc := &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.MemberClusterSpec{
			Region: name, IngressDomain: name + ".example.com", Scheduling: v1alpha1.SchedulingCordoned,
		},
	}
	if err := r.Watch.Hub.Create(ctx, mc); err != nil {
		return "", err
	}
	r.Cleanup(func() { deleteMember(r, mc) })
	return mc.UID, nil
}

// AwaitConnected waits until the hub shows a member's stream open.
func AwaitConnected(ctx context.Context, r *Run, m *harness.Member) error {
	return stage.Poll(ctx, r.Scaled(time.Minute)+stage.Allowance, func(ctx context.Context) error {
		mc := &v1alpha1.MemberCluster{}
		if err := r.Watch.Hub.Get(ctx, watch.Key("/"+m.Name), mc); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha1.ConditionConnected) {
			return fmt.Errorf("the hub does not show %s connected: %v", m.Name, mc.Status.Conditions)
		}
		return nil
	})
}

// AwaitOtherLeader waits until another replica of the hub leads.
func AwaitOtherLeader(ctx context.Context, r *Run, old *harness.Replica) error {
	return stage.Poll(ctx, r.Scaled(time.Minute)+stage.Allowance, func(ctx context.Context) error {
		if now := r.Fleet.Hub.Leader(ctx); now == nil || now == old {
			return errors.New("no other replica leads")
		}
		return nil
	})
}

// deleteMember deletes a MemberCluster of a scenario.
func deleteMember(r *Run, mc *v1alpha1.MemberCluster) {
	ctx, cancel := context.WithTimeout(context.Background(), stage.Allowance)
	defer cancel()
	// The hub may take a moment to show that it has no sessions any more.
	if err := stage.Poll(ctx, stage.Allowance, func(ctx context.Context) error { return r.Watch.Hub.Delete(ctx, mc) }); err != nil {
		r.Logf("    deleting member %s: %v", mc.Name, err)
	}
}
