package fleet

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
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
	f.Begin()
	for {
		select {
		case <-ctx.Done():
			return nil
		case name := <-f.engage:
			if err := f.engageMember(ctx, aware, name); err != nil {
				return fmt.Errorf("engaging member %s: %w", name, err)
			}
		}
	}
}

func (f *Fleet) engageMember(ctx context.Context, aware multicluster.Aware, name string) error {
	f.mu.Lock()
	m := f.members[name]
	if m == nil || m.synced {
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
			log.FromContext(ctx).Error(err, "A member's cache ended", "cluster", name)
		}
	}()
	if !cl.cache.WaitForCacheSync(ctx) {
		return nil
	}
	f.mu.Lock()
	m.cluster, m.synced = cl, true
	f.mu.Unlock()
	if err := aware.Engage(ctx, multicluster.ClusterName(name), cl); err != nil {
		return err
	}
	f.tell(Change{Kind: MemberConnected, Member: name, UID: m.uid})
	return nil
}
