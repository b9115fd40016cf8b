package runner

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/simulated"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
)

// startSimulated starts the agent of a simulated member that exists on the hub.
func startSimulated(r *Run, m *simulated.Member, uid types.UID, fingerprint string) (*simulated.Agent, error) {
	files, err := r.Fleet.PKI.Agent(m.Name, string(uid))
	if err != nil {
		return nil, err
	}
	return simulated.Start(m, r.Links[r.Fleet.Members[0].Name].Addr(), files, fingerprint, r.Factor, r.Logf), nil
}

// SimulateAgents creates members that take no sessions, with simulated agents.
func SimulateAgents(ctx context.Context, r *Run, n int) ([]*simulated.Agent, error) {
	var all []*simulated.Agent
	for i := range n {
		m := simulated.NewMember(fmt.Sprintf("simulated-%03d", i), workload.Namespace, 0, nil)
		uid, err := CreateMember(ctx, r, m.Name)
		if err != nil {
			return nil, err
		}
		s, err := startSimulated(r, m, uid, "simulated-"+m.Name)
		if err != nil {
			return nil, err
		}
		r.Cleanup(s.Stop)
		all = append(all, s)
	}
	return all, nil
}

// SimulatedTaint keeps the workload out of simulated members: they have no Pods that the checker
// could observe.
const SimulatedTaint = "simulated"

// simulatedNodes is how many nodes a simulated member with capacity has.
const simulatedNodes = 20

// SimulateMember creates a member with capacity for sessions that request it, with a simulated
// agent. The member is checked like the others, and deleted after that.
func SimulateMember(ctx context.Context, r *Run, name string) (*simulated.Agent, error) {
	return SimulateCluster(ctx, r, name, "simulated-"+name)
}

// SimulateCluster creates such a member with the fingerprint of a certain cluster.
func SimulateCluster(ctx context.Context, r *Run, name, fingerprint string) (*simulated.Agent, error) {
	mc := &v1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.MemberClusterSpec{
			Region: name, IngressDomain: name + ".example.com",
			Taints: []corev1.Taint{{Key: SimulatedTaint, Effect: corev1.TaintEffectNoSchedule}},
		},
	}
	if err := r.Watch.Hub.Create(ctx, mc); err != nil {
		return nil, err
	}
	r.CleanupLast(func() { deleteMember(r, mc) })
	m := simulated.NewMember(name, workload.Namespace, simulatedNodes, r.Watch.AssignmentChanged)
	s, err := startSimulated(r, m, mc.UID, fingerprint)
	if err != nil {
		return nil, err
	}
	r.Watch.AddSimulated(m.Name, m)
	r.Cleanup(s.ResumeReading)
	r.CleanupLast(func() {
		s.Stop()
		r.Watch.RemoveSimulated(m.Name)
	})
	return s, nil
}

// SimulateMembers creates several members with capacity.
func SimulateMembers(ctx context.Context, r *Run, prefix string, n int) ([]*simulated.Agent, error) {
	var all []*simulated.Agent
	for i := range n {
		s, err := SimulateMember(ctx, r, fmt.Sprintf("%s-%02d", prefix, i))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// CreateSimulatedSession creates a session that only one simulated member can take.
func CreateSimulatedSession(ctx context.Context, r *Run, name string, at *simulated.Agent, change ...func(*v1alpha1.SessionSpec)) (*v1alpha1.VDISession, error) {
	s := workload.NewSession(name, 3)
	for _, c := range change {
		c(&s.Spec)
	}
	s.Spec.Placement.RequiredRegions = []string{at.Name}
	s.Spec.Placement.ClusterTolerations = []corev1.Toleration{{Key: SimulatedTaint, Operator: corev1.TolerationOpExists}}
	if err := stage.Poll(ctx, stage.Allowance, func(ctx context.Context) error { return r.Watch.Hub.Create(ctx, s) }); err != nil {
		return nil, fmt.Errorf("creating %s: %w", s.Name, err)
	}
	return s, nil
}

// AwaitAllRunning waits until the sessions run.
func AwaitAllRunning(ctx context.Context, r *Run, sessions []*v1alpha1.VDISession) error {
	return r.Await(ctx, fmt.Sprintf("%d sessions in simulated members run", len(sessions)), func(c *checker.Checker) bool {
		for _, s := range sessions {
			if !Running(s.UID)(c) {
				return false
			}
		}
		return true
	})
}
