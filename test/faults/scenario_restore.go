package faults

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// restores puts the hub's etcd back to an earlier time.
func restores() []scenario {
	return []scenario{
		{name: "hub-restored", size: 16, alone: true, ends: true, slack: watchBackoff, do: func(ctx context.Context, r *run) error {
			return hubRestored(ctx, r, 0)
		}},
		{
			name: "hub-restored-from-before-other-leaders", size: 16, alone: true, ends: true, slack: watchBackoff,
			do: func(ctx context.Context, r *run) error { return hubRestored(ctx, r, rounds) },
		},
	}
}

// snapshot names the copy of the hub's etcd.
const snapshot = "earlier"

// hubRestored saves the hub's etcd, has sessions placed, moved, created and
// deleted, and restores it as README's runbook says: no hub runs meanwhile.
func hubRestored(ctx context.Context, r *run, leaders int) error {
	cp := r.fleet.Hub.ControlPlane
	if err := r.pause(ctx, 20*time.Second); err != nil {
		return err
	}
	r.harm("the hub's etcd is saved")
	if err := cp.SaveEtcd(ctx, snapshot); err != nil {
		return err
	}
	// The leaders since then have terms that the restored hub knows nothing of.
	for range leaders {
		if err := r.killLeader(ctx, "so that its term is left behind"); err != nil {
			return err
		}
		if err := r.pause(ctx, 20*time.Second); err != nil {
			return err
		}
	}
	if err := r.moveOne(ctx); err != nil {
		return err
	}
	for n := range 3 {
		uid, err := r.marked(ctx, n, r.member())
		if err != nil {
			return err
		}
		if err := r.await(ctx, "a session that will be forgotten runs", runs(uid)); err != nil {
			return err
		}
	}
	r.work.end()
	for _, replica := range r.fleet.Hub.Replicas {
		r.supervisor.hold(replica.Process, true)
		if err := replica.Kill(); err != nil {
			return err
		}
	}
	r.harm("the hub is stopped and its etcd restored")
	if err := r.restore(ctx, cp); err != nil {
		return err
	}
	r.harm("the hub starts again")
	r.supervisor.releaseAll()
	return nil
}

// moveOne has a session placed anew, by deleting its assignment by hand.
func (r *run) moveOne(ctx context.Context) error {
	m := r.member()
	uid, err := r.marked(ctx, 90, m)
	if err != nil {
		return err
	}
	if err := r.await(ctx, "the session to be moved runs", runs(uid)); err != nil {
		return err
	}
	var before assignmentFact
	r.watch.heard(func(c *checker, _ time.Time) { before = c.held[m.Name][uid] })
	r.harm("assignment %s is deleted by hand", before.Name)
	if _, err := m.ControlPlane.Kubectl(ctx, "delete", "vdia", "-n", namespace, key(before.Name).Name, "--wait=false"); err != nil {
		return err
	}
	return r.await(ctx, "the session is placed anew", func(c *checker) bool {
		return c.sessions[uid].Placed > before.Epoch && c.sessions[uid].PodReady
	})
}

// restore puts the copy back, and tells the checker what the hub has forgotten.
func (r *run) restore(ctx context.Context, cp *harness.ControlPlane) error {
	w := r.watch
	w.heard(func(*checker, time.Time) { w.ignore = true })
	w.hubCache()
	if err := cp.RestoreEtcd(ctx, snapshot); err != nil {
		return err
	}
	sides, err := r.sides(ctx)
	if err != nil {
		return fmt.Errorf("reading what was restored: %w", err)
	}
	holds := map[types.UID]bool{}
	for i := range sides.sessions {
		holds[sides.sessions[i].UID] = true
	}
	lost := 0
	w.heard(func(c *checker, _ time.Time) {
		c.restored(holds)
		w.ignore = false
		for _, k := range c.sessions {
			if k.lost {
				lost++
			}
		}
	})
	r.harm("%d sessions are forgotten, %d are known", lost, len(holds))
	return w.watchHub(w.ctx, cp)
}
