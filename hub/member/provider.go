package member

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

var (
	_ multicluster.Provider         = &Fleet{}
	_ multicluster.ProviderRunnable = &Fleet{}
)

// Get returns a member's cluster (multicluster.Provider), or
// ErrClusterNotFound while the member is away.
func (f *Fleet) Get(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[string(name)]
	if m == nil || !m.synced || !m.serving {
		return nil, multicluster.ErrClusterNotFound
	}
	// A stream that is open while nothing is heard is no better than none: what
	// it last said must not pass for how things are.
	if m.assess(f.timings, f.look()).State == health.Unreachable {
		return nil, multicluster.ErrClusterNotFound
	}
	return m.cluster, nil
}

// IndexField is not needed: the members' clusters are asked by name alone.
func (f *Fleet) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return fmt.Errorf("indexing members' clusters: %w", errReadOnly)
}

// Start engages members as their first inventories come in
// (multicluster.ProviderRunnable). One goroutine does it, so that engagements
// of one name never overlap.
func (f *Fleet) Start(ctx context.Context, aware multicluster.Aware) error {
	for {
		if m := f.nextWaiting(); m != nil {
			if err := f.engageMember(ctx, aware, m); err != nil {
				return fmt.Errorf("engaging member %s: %w", m.name, err)
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		}
	}
}

// await has a member engaged. The caller holds the lock.
func (f *Fleet) await(m *member) {
	f.waiting = append(f.waiting, m)
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *Fleet) nextWaiting() *member {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		f.waiting = nil
		return nil
	}
	m := f.waiting[0]
	f.waiting = f.waiting[1:]
	return m
}

func (f *Fleet) engageMember(ctx context.Context, aware multicluster.Aware, m *member) error {
	f.mu.Lock()
	if f.uids[m.uid] != m || m.synced {
		f.mu.Unlock()
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	m.disengage = cancel
	f.mu.Unlock()

	cl, err := newMemberCluster(f.scheme, m.pic, memberOutbox{fleet: f, m: m})
	if err != nil {
		return err
	}
	// The informer has to exist before the cache starts, or there is nothing
	// to wait for.
	if _, err := cl.cache.GetInformer(ctx, &v1alpha1.SessionAssignment{}); err != nil {
		return fmt.Errorf("creating the informer: %w", err)
	}
	go func() {
		if err := cl.Start(ctx); err != nil {
			log.FromContext(ctx).Error(err, "A member's cache ended", "member", m.name)
		}
	}()
	if !cl.cache.WaitForCacheSync(ctx) {
		return nil
	}
	f.mu.Lock()
	m.cluster, m.synced = cl, true
	f.mu.Unlock()
	err = aware.Engage(ctx, multicluster.ClusterName(m.name), cl)
	if ctx.Err() != nil {
		return nil // removed meanwhile, or the hub ends
	}
	if err != nil {
		return err
	}
	f.tell(Change{Kind: MemberConnected, Member: m.name, UID: m.uid})
	return nil
}
