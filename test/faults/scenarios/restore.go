package scenarios

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

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

// restores returns the scenarios that restore the hub's etcd to an earlier time, with up to two
// further leaders since then, and with agents that restart meanwhile or not. Each has a session of
// every kind that a backup may be wrong about.
func restores() []runner.Scenario {
	var all []runner.Scenario
	for leaders := range 3 {
		for _, again := range []bool{false, true} {
			name := fmt.Sprintf("hub-restored-%d-leaders", leaders)
			if again {
				name += "-agents-restarted"
			}
			all = append(all, runner.Scenario{
				Name: name, Size: 16, Alone: true, EndsProcesses: true, Slack: stage.WatchBackoff,
				Do: func(ctx context.Context, r *runner.Run) error { return hubRestored(ctx, r, leaders, again) },
			})
		}
	}
	return all
}

// snapshot is the name of the copy of the hub's etcd.
const snapshot = "earlier"

// termStoredWithin is the longest time, in production time, from an order until every agent has stored a
// later term.
const termStoredWithin = 20 * time.Second

// paramsReady is how long an API server that has just started may deny what a policy with
// parameters covers: it checks for their kind every 30 s.
const paramsReady = 30*time.Second + stage.Allowance

// nowhere is a region without members.
const nowhere = "nowhere"

// backupSessions are sessions whose state in the backup differs from that at the restore.
type backupSessions struct {
	// kept is as in the backup. placed was pending at the time of the backup, moved was in another
	// member, and unknown did not exist: their desktops must keep running.
	kept, placed, moved, unknown types.UID
	// deleted is in the backup only, and pending is still pending.
	deleted, pending types.UID
	// desktops are the Pods of those that run.
	desktops map[types.UID][]types.UID
}

// hubRestored saves the hub's etcd, places, moves, creates and deletes sessions, and restores etcd
// as docs/operators.md describes: no hub runs meanwhile.
func hubRestored(ctx context.Context, r *runner.Run, leaders int, again bool) error {
	cp := r.Fleet.Hub.ControlPlane
	f, err := createBackedUp(ctx, r)
	if err != nil {
		return err
	}
	r.Record("the hub's etcd is saved")
	if err := cp.SaveEtcd(ctx, snapshot); err != nil {
		return err
	}
	for range leaders {
		if err := r.KillLeader(ctx, "so that its term is left behind"); err != nil {
			return err
		}
		if err := r.Pause(ctx, 20*time.Second); err != nil {
			return err
		}
	}
	if err := changeSinceBackup(ctx, r, f); err != nil {
		return err
	}
	r.Workload.Stop()
	if err := r.Pause(ctx, termStoredWithin); err != nil {
		return err
	}
	r.Watch.With(func(c *checker.Checker, _ time.Time) { f.desktops = c.Desktops(f.kept, f.placed, f.moved, f.unknown) })
	if err := restoreHub(ctx, r, cp, again); err != nil {
		return err
	}
	return errors.Join(checkRestored(ctx, r, f), checkDetected(ctx, cp))
}

// checkDetected checks that the hub has recorded its restore, with a term above every agent's.
func checkDetected(ctx context.Context, cp *harness.ControlPlane) error {
	term, err := cp.Kubectl(ctx, "get", "lease", "vdi-hub-term", "-n", harness.SystemNamespace, "-o", `jsonpath={.metadata.annotations.vdi\.kasm\.io/restored-term}`)
	if err == nil && term == "" {
		err = errors.New("the hub has not detected that it was restored")
	}
	return err
}

// createBackedUp creates the sessions that are in the backup.
func createBackedUp(ctx context.Context, r *runner.Run) (f *backupSessions, err error) {
	f = &backupSessions{}
	first, other := r.Fleet.Members[0], r.Fleet.Members[1]
	for n, s := range []struct {
		uid *types.UID
		in  string
	}{
		{&f.kept, first.Spec.Region}, {&f.moved, first.Spec.Region}, {&f.deleted, other.Spec.Region}, {&f.placed, nowhere}, {&f.pending, nowhere},
	} {
		if *s.uid, err = createInRegion(ctx, r, n, s.in); err != nil {
			return nil, err
		}
		if s.in == nowhere {
			continue
		}
		if err := r.Await(ctx, "a session of the backup runs", runner.Running(*s.uid)); err != nil {
			return nil, err
		}
	}
	return f, r.Pause(ctx, 20*time.Second)
}

// changeSinceBackup makes the changes that the backup lacks.
func changeSinceBackup(ctx context.Context, r *runner.Run, f *backupSessions) (err error) {
	first, other := r.Fleet.Members[0], r.Fleet.Members[1]
	r.Record("sessions are placed, moved, created and deleted, which the backup does not have")
	for _, uid := range []types.UID{f.placed, f.moved} {
		if err := allowRegion(ctx, r, uid, other.Spec.Region); err != nil {
			return err
		}
	}
	// Only a member that is connected to the new leader can report the deletion.
	beside, err := createInRegion(ctx, r, 91, first.Spec.Region)
	if err != nil {
		return err
	}
	if err := r.Await(ctx, "a session runs where another is taken away", runner.Running(beside)); err != nil {
		return err
	}
	if err := deleteAssignment(ctx, r, first, f.moved); err != nil {
		return err
	}
	if f.unknown, err = createInRegion(ctx, r, 90, other.Spec.Region); err != nil {
		return err
	}
	if err := r.Watch.Hub.Delete(ctx, sessionName(r, f.deleted)); err != nil {
		return err
	}
	for what, seen := range map[string]func(*checker.Checker) bool{
		"a session that was pending runs": runner.Running(f.placed),
		"a session that moves runs where it is to": func(c *checker.Checker) bool {
			return runner.Running(f.moved)(c) && c.Session(f.moved).Cluster == other.Name
		},
		"a session that will be lost runs": runner.Running(f.unknown),
		"a session is deleted":             func(c *checker.Checker) bool { return c.Session(f.deleted).Deleted },
	} {
		if err := r.Await(ctx, what, seen); err != nil {
			return err
		}
	}
	return nil
}

// createInRegion creates a session beside the workload's, in a region.
func createInRegion(ctx context.Context, r *runner.Run, n int, region string) (types.UID, error) {
	s := workload.NewSession(fmt.Sprintf("%s-single-%d", r.Scenario.Name, n), 3)
	s.Spec.Placement.RequiredRegions = []string{region}
	s.Spec.Failover.Mode = []v1alpha1.FailoverMode{v1alpha1.FailoverRestart, v1alpha1.FailoverHold, v1alpha1.FailoverFence}[n%3]
	if err := stage.Poll(ctx, paramsReady, func(ctx context.Context) error { return r.Watch.Hub.Create(ctx, s) }); err != nil {
		return "", fmt.Errorf("creating %s: %w", s.Name, err)
	}
	return s.UID, nil
}

// sessionName returns the namespace and name of a session of the checker.
func sessionName(r *runner.Run, uid types.UID) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{}
	r.Watch.With(func(c *checker.Checker, _ time.Time) {
		if k := c.Session(uid); k != nil {
			s.Namespace, s.Name = watch.Key(k.Name).Namespace, watch.Key(k.Name).Name
		}
	})
	return s
}

// allowRegion allows a session in one region only.
func allowRegion(ctx context.Context, r *runner.Run, uid types.UID, region string) error {
	return stage.Poll(ctx, paramsReady, func(ctx context.Context) error {
		s := sessionName(r, uid)
		if err := r.Watch.Hub.Get(ctx, client.ObjectKeyFromObject(s), s); err != nil {
			return err
		}
		before := s.DeepCopy()
		s.Spec.Placement.RequiredRegions = []string{region}
		return r.Watch.Hub.Patch(ctx, s, client.MergeFrom(before))
	})
}

// deleteAssignment deletes a session's assignment by hand, so that the session is rescheduled.
func deleteAssignment(ctx context.Context, r *runner.Run, m *harness.Member, uid types.UID) error {
	var held checker.AssignmentState
	r.Watch.With(func(c *checker.Checker, _ time.Time) { held, _ = c.Assignment(m.Name, uid) })
	r.Record("assignment %s is deleted by hand", held.Name)
	_, err := m.ControlPlane.Kubectl(ctx, "delete", "vdia", "-n", workload.Namespace, watch.Key(held.Name).Name, "--wait=false")
	return err
}

// restoreHub stops the hub, restores its etcd, and starts it again.
func restoreHub(ctx context.Context, r *runner.Run, cp *harness.ControlPlane, again bool) error {
	for _, replica := range r.Fleet.Hub.Replicas {
		r.Supervisor.Hold(replica.Process, true)
		if err := replica.Kill(); err != nil {
			return err
		}
	}
	r.Record("the hub is stopped and its etcd restored")
	if err := restoreEtcd(ctx, r, cp); err != nil {
		return err
	}
	if again {
		for _, m := range r.Fleet.Members {
			r.Record("kill -9 %s", m.Agent.Spec.Name)
			if err := m.Agent.Kill(); err != nil {
				return err
			}
		}
	}
	r.Record("the hub starts again")
	r.Supervisor.ReleaseAll()
	return nil
}

// checkRestored waits until both sides agree: what ran still runs in the same Pods, the hub has
// adopted it, and everything else is placed again.
func checkRestored(ctx context.Context, r *runner.Run, f *backupSessions) error {
	if err := allowRegion(ctx, r, f.pending, r.Fleet.Members[0].Spec.Region); err != nil {
		return err
	}
	for what, uid := range map[string]types.UID{
		"a session that the backup has as it is runs": f.kept, "a session placed since the backup runs": f.placed,
		"a session moved since the backup runs": f.moved, "a session deleted since the backup runs": f.deleted,
		"a session that was never placed runs": f.pending,
	} {
		if err := r.Await(ctx, what, runner.Running(uid)); err != nil {
			return err
		}
	}
	limit := r.Scaled(stage.ConvergeWithin) + stage.Allowance + r.Scenario.Slack
	if err := r.AwaitSnapshot(ctx, limit, (*watch.Snapshot).Converged); err != nil {
		return fmt.Errorf("G8: the sides do not agree: %w", err)
	}
	var now map[types.UID][]types.UID
	r.Watch.With(func(c *checker.Checker, _ time.Time) { now = c.Desktops(f.kept, f.placed, f.moved, f.unknown) })
	for what, uid := range map[string]types.UID{"kept": f.kept, "placed": f.placed, "moved": f.moved, "unknown": f.unknown} {
		if len(f.desktops[uid]) != 1 || !slices.Equal(now[uid], f.desktops[uid]) {
			return fmt.Errorf("the session that was %s ran in Pods %v before the restore, and runs in %v", what, f.desktops[uid], now[uid])
		}
	}
	return nil
}

// restoreEtcd restores the copy, and records how many sessions the hub has lost.
func restoreEtcd(ctx context.Context, r *runner.Run, cp *harness.ControlPlane) error {
	lost, kept, err := r.Watch.HubRestored(ctx, cp, func() error { return cp.RestoreEtcd(ctx, snapshot) })
	if err != nil {
		return err
	}
	r.Record("%d sessions are lost, %d are kept", lost, kept)
	return nil
}
