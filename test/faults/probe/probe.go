package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/runner"
	"github.com/vdi-fleet/vdi-fleet/test/faults/stage"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// Probe is a session beside the workload's that only the fleet acts upon. It ran in a member when
// the fault was injected, and may run in any.
type Probe struct {
	UID   types.UID
	Name  string
	Mode  v1alpha1.FailoverMode
	At    *harness.Member
	epoch int64
}

// Probes are the probes of one or more members.
type Probes []Probe

// OfMode returns the probes of a failover mode.
func (all Probes) OfMode(mode v1alpha1.FailoverMode) Probes {
	return slices.DeleteFunc(slices.Clone(all), func(p Probe) bool { return p.Mode != mode })
}

// Request describes a probe to create.
type Request struct {
	Mode     v1alpha1.FailoverMode
	Template string
	Healing  v1alpha1.HealingMode
}

// Standard are probes of each mode: two of Restart, two of Fence, and two of Hold, one with a
// home.
var Standard = []Request{
	{Mode: v1alpha1.FailoverRestart}, {Mode: v1alpha1.FailoverRestart},
	{Mode: v1alpha1.FailoverFence}, {Mode: v1alpha1.FailoverFence},
	{Mode: v1alpha1.FailoverHold}, {Mode: v1alpha1.FailoverHold, Template: workload.HomeTemplate},
}

// Create makes probes run in a member. They may be placed elsewhere later.
func Create(ctx context.Context, r *runner.Run, m *harness.Member, requests []Request) (Probes, error) {
	if err := runner.AwaitStable(ctx, r, m.Name); err != nil {
		return nil, err
	}
	var all Probes
	var made []*v1alpha1.VDISession
	for i, w := range requests {
		s := workload.NewSession(fmt.Sprintf("%s-probe-%s-%02d", r.Scenario.Name, m.Name, i), 3)
		s.Spec.Failover = v1alpha1.SessionFailover{Mode: w.Mode, Healing: w.Healing}
		s.Spec.Placement.PreferredRegions = []string{m.Spec.Region}
		s.Spec.Placement.ClusterTolerations = []corev1.Toleration{{Key: runner.SimulatedTaint, Operator: corev1.TolerationOpExists}}
		if w.Template != "" {
			s.Spec.Template = w.Template
		}
		uid, err := place(ctx, r, m, s)
		if err != nil {
			return nil, err
		}
		all, made = append(all, Probe{UID: uid, Name: s.Name, Mode: w.Mode, At: m}), append(made, s)
	}
	for i := range all {
		if err := keepInMember(ctx, r, &all[i], made[i]); err != nil {
			return nil, err
		}
	}
	return all, AwaitRunning(ctx, r, all)
}

// place creates a session again until it is placed in its preferred member, which gets no sessions
// for a moment if it renews late on a busy machine.
func place(ctx context.Context, r *runner.Run, m *harness.Member, s *v1alpha1.VDISession) (uid types.UID, err error) {
	err = stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+2*stage.Allowance, func(ctx context.Context) error {
		made := s.DeepCopy()
		switch err := r.Watch.Hub.Create(ctx, made); {
		case apierrors.IsAlreadyExists(err): // not placed in time, or still being deleted
			if err := r.Watch.Hub.Get(ctx, watch.Key(workload.Namespace+"/"+s.Name), made); err != nil {
				return err
			}
		case err != nil:
			return err
		}
		if made.DeletionTimestamp != nil {
			return errors.New("the one that was placed elsewhere is still there")
		}
		if err := r.Await(ctx, "it is placed", runner.Placed(made.UID)); err != nil {
			return err
		}
		uid = made.UID
		cluster := ""
		r.Watch.With(func(c *checker.Checker, _ time.Time) { cluster = c.Session(uid).Cluster })
		if cluster == m.Name {
			return nil
		}
		return errors.Join(fmt.Errorf("it is placed in %s", cluster), r.Watch.Hub.Delete(ctx, made))
	})
	if err != nil {
		return "", fmt.Errorf("placing %s in %s: %w", s.Name, m.Name, err)
	}
	return uid, nil
}

// keepInMember waits until a probe runs where it was placed. On a busy machine it may get no node
// or volume in time, and is rescheduled: then it is created again.
func keepInMember(ctx context.Context, r *runner.Run, p *Probe, s *v1alpha1.VDISession) error {
	for range 3 {
		at := ""
		if err := r.Await(ctx, p.Name+" runs", func(c *checker.Checker) bool {
			f := c.Session(p.UID)
			at = f.Cluster
			return f.PodReady
		}); err != nil {
			return err
		}
		if at == p.At.Name {
			return nil
		}
		if err := r.Watch.Hub.Delete(ctx, s.DeepCopy()); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("creating %s again: %w", p.Name, err)
		}
		uid, err := place(ctx, r, p.At, s)
		if err != nil {
			return err
		}
		p.UID = uid
	}
	return fmt.Errorf("%s was placed in %s again and again, and ran elsewhere", p.Name, p.At.Name)
}

// AwaitRunning waits until probes run in their members, with a guard where their mode needs one.
func AwaitRunning(ctx context.Context, r *runner.Run, all Probes) error {
	for i := range all {
		p := &all[i]
		err := stage.Poll(ctx, r.Scaled(stage.ConvergeWithin)+2*stage.Allowance, func(ctx context.Context) error {
			s := &v1alpha1.VDISession{}
			if err := r.Watch.Hub.Get(ctx, watch.Key(workload.Namespace+"/"+p.Name), s); err != nil {
				return err
			}
			placement := s.Status.Placement
			switch {
			case placement == nil || !watch.PodReady(s.Status.Conditions):
				return fmt.Errorf("it is %s: %s", s.Status.Phase, s.Status.Message)
			case placement.ClusterName != p.At.Name:
				return fmt.Errorf("it is in %s", placement.ClusterName)
			case p.Mode == v1alpha1.FailoverFence && !placement.Guarded:
				return errors.New("it has no guard")
			}
			p.epoch = placement.Epoch
			return nil
		})
		if err != nil {
			return fmt.Errorf("having %s run in %s: %w", p.Name, p.At.Name, err)
		}
	}
	return nil
}
