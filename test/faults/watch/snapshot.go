package watch

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
)

// Snapshot is what the API servers hold at one time.
type Snapshot struct {
	Sessions    []v1alpha1.VDISession
	assignments map[string]map[types.UID]*v1alpha1.SessionAssignment
	pods        map[types.UID][]checker.PodState
	// lost are the sessions that the hub lost by being restored.
	lost map[types.UID]bool
}

// Snapshot reads all API servers, except those of members that never return.
func (w *Watcher) Snapshot(ctx context.Context, removed func(member string) bool) (*Snapshot, error) {
	out := &Snapshot{assignments: map[string]map[types.UID]*v1alpha1.SessionAssignment{}, pods: map[types.UID][]checker.PodState{}, lost: map[types.UID]bool{}}
	list := &v1alpha1.VDISessionList{}
	if err := w.Hub.List(ctx, list, client.InNamespace(workload.Namespace)); err != nil {
		return nil, err
	}
	out.Sessions = list.Items
	for name, c := range w.members {
		if removed(name) {
			continue
		}
		held, pods := &v1alpha1.SessionAssignmentList{}, &corev1.PodList{}
		if err := c.List(ctx, held, client.InNamespace(workload.Namespace)); err != nil {
			return nil, err
		}
		if err := c.List(ctx, pods, client.InNamespace(workload.Namespace)); err != nil {
			return nil, err
		}
		out.assignments[name] = map[types.UID]*v1alpha1.SessionAssignment{}
		for i := range held.Items {
			out.assignments[name][held.Items[i].Spec.Session.UID] = &held.Items[i]
		}
		for i := range pods.Items {
			if f := podOf(name, &pods.Items[i]); f.Session != "" && !f.Ended {
				out.pods[f.Session] = append(out.pods[f.Session], *f)
			}
		}
	}
	for name, m := range w.allSimulated() {
		out.assignments[name] = m.Assignments()
	}
	w.With(func(c *checker.Checker, _ time.Time) {
		for uid, k := range c.Sessions() {
			if k.Lost {
				out.lost[uid] = true
			}
		}
	})
	return out, nil
}

// Converged returns nil once both sides hold the same: every placed session is in its member and
// nowhere else, under its epoch and as its spec requires, and the hub shows what the member
// reports.
func (s *Snapshot) Converged() error {
	placed := map[types.UID]string{}
	for i := range s.Sessions {
		session := &s.Sessions[i]
		if err := s.settled(session); err != nil {
			return fmt.Errorf("session %s: %w", session.Name, err)
		}
		if p := session.Status.Placement; p != nil {
			placed[session.UID] = p.ClusterName
		}
	}
	for member, held := range s.assignments {
		for uid, a := range held {
			if placed[uid] != member && !s.lost[uid] {
				return fmt.Errorf("%s holds assignment %s of epoch %d, which is placed in %q", member, a.Name, a.Spec.Epoch, placed[uid])
			}
		}
	}
	for uid, pods := range s.pods {
		if len(pods) > 1 || placed[uid] != pods[0].Cluster && !s.lost[uid] {
			return fmt.Errorf("session %s has Pods %v, and is placed in %q", uid, pods, placed[uid])
		}
	}
	return nil
}

// settled returns nil once no change of this session is in progress.
func (s *Snapshot) settled(session *v1alpha1.VDISession) error {
	p := session.Status.Placement
	switch {
	case session.DeletionTimestamp != nil:
		return fmt.Errorf("still being deleted: %s", session.Status.Message)
	case len(session.Status.Releasing) > 0:
		return fmt.Errorf("still being released: %v", session.Status.Releasing)
	case session.Status.ObservedGeneration != session.Generation:
		return fmt.Errorf("its status is of generation %d of %d", session.Status.ObservedGeneration, session.Generation)
	case session.Status.Phase != v1alpha1.PhaseRunning && session.Status.Message == "":
		return fmt.Errorf("is %s without a message", session.Status.Phase)
	case p == nil:
		return nil
	}
	a := s.assignments[p.ClusterName][session.UID]
	switch suspended := session.Spec.OperatingMode == v1alpha1.ModeSuspended; {
	case a == nil:
		return fmt.Errorf("placed in %s, which does not hold it", p.ClusterName)
	case a.Spec.Epoch != p.Epoch:
		return fmt.Errorf("placed under epoch %d, and %s holds %d", p.Epoch, p.ClusterName, a.Spec.Epoch)
	case a.DeletionTimestamp != nil:
		return fmt.Errorf("being stopped in %s, where it is placed", p.ClusterName)
	case (a.Spec.RunState == v1alpha1.ModeSuspended) != suspended && !p.Idle:
		return fmt.Errorf("wanted %s, and %s has it %s", session.Spec.OperatingMode, p.ClusterName, a.Spec.RunState)
	// A session that is stopped takes its next attempt when it resumes.
	case a.Spec.Attempt != session.Spec.Attempt && !suspended && !p.Idle:
		return fmt.Errorf("wanted in attempt %d, and %s has attempt %d", session.Spec.Attempt, p.ClusterName, a.Spec.Attempt)
	case PodReady(session.Status.Conditions) != PodReady(a.Status.Conditions):
		return fmt.Errorf("the hub and %s differ on whether its desktop is ready", p.ClusterName)
	}
	return nil
}

// AllRunning returns nil once every session that is not suspended runs.
func (s *Snapshot) AllRunning() error {
	for i := range s.Sessions {
		session := &s.Sessions[i]
		if session.Spec.OperatingMode != v1alpha1.ModeSuspended && session.Status.Phase != v1alpha1.PhaseRunning {
			return fmt.Errorf("session %s is %s: %s", session.Name, session.Status.Phase, session.Status.Message)
		}
	}
	return nil
}

// Empty returns nil once nothing is left but the sessions that a restored hub has lost.
func (s *Snapshot) Empty() error {
	if len(s.Sessions) > 0 {
		return fmt.Errorf("%d sessions are left, such as %s: %s", len(s.Sessions), s.Sessions[0].Name, s.Sessions[0].Status.Message)
	}
	return s.Converged()
}
