package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

var (
	_ multicluster.Provider         = &Provider{}
	_ multicluster.ProviderRunnable = &Provider{}
)

// Registry is the hub's state of one member.
type Registry interface {
	// Available reports whether the member is connected and not Unreachable.
	Available() bool
	// Send puts an order in the outbox of the member's connection.
	Send(protocol.Order) error
	// Engaged is called once the member's cluster is engaged.
	Engaged()
	// Placed reports whether, according to the hub, a session is placed in the member or not
	// confirmed as stopped there.
	Placed(session types.UID) bool
	// Known reports whether it is, or the proof shows that it was placed there.
	Known(session types.UID, epoch int64, proof string) bool
}

// Member is one member of a Provider.
type Member struct {
	// Cache of what the member's agent reports.
	Cache *Cache
	// Synced is set once the member's cluster has its first inventory. The Provider sets
	// it.
	Synced atomic.Bool

	name     string
	registry Registry
	cluster  cluster.Cluster
	// disengage is protected by the provider's lock.
	disengage context.CancelFunc
}

// Provider provides the members' clusters.
type Provider struct {
	scheme *runtime.Scheme

	mu      sync.Mutex
	members map[string]*Member
	// waiting are members with a first inventory, to be engaged. No caller waits for the
	// engagement.
	waiting workqueue.TypedInterface[*Member]
}

// NewProvider returns a provider without members.
func NewProvider(scheme *runtime.Scheme) *Provider {
	return &Provider{scheme: scheme, members: map[string]*Member{}, waiting: workqueue.NewTyped[*Member]()}
}

// Add adds a member, and replaces an earlier one of that name.
func (p *Provider) Add(name string, registry Registry) *Member {
	m := &Member{Cache: newCache(registry.Known, registry.Placed), name: name, registry: registry}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.members[name] = m
	return m
}

// Remove removes a member, and ends its cluster.
func (p *Provider) Remove(m *Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.members[m.name] == m {
		delete(p.members, m.name)
	}
	if m.disengage != nil {
		m.disengage()
	}
}

// Engage queues a member whose first inventory is complete for engagement.
func (p *Provider) Engage(m *Member) { p.waiting.Add(m) }

// Get returns a member's cluster (multicluster.Provider), or ErrClusterNotFound while the
// member is unavailable.
func (p *Provider) Get(_ context.Context, name multicluster.ClusterName) (cluster.Cluster, error) {
	p.mu.Lock()
	m := p.members[string(name)]
	p.mu.Unlock()
	// An open stream without heartbeats does not count: its last reports are not the
	// current state.
	if m == nil || !m.Synced.Load() || !m.registry.Available() {
		return nil, multicluster.ErrClusterNotFound
	}
	return m.cluster, nil
}

// IndexField is not supported: the members' clusters are read by name alone.
func (p *Provider) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return fmt.Errorf("indexing members' clusters: %w", errReadOnly)
}

// Start engages members as their first inventories arrive (multicluster.ProviderRunnable).
// One goroutine does it, so that engagements of one name never overlap.
func (p *Provider) Start(ctx context.Context, aware multicluster.Aware) error {
	defer context.AfterFunc(ctx, p.waiting.ShutDown)()
	for {
		m, ended := p.waiting.Get()
		if ended {
			return nil
		}
		if err := p.engage(ctx, aware, m); err != nil {
			return fmt.Errorf("engaging member %s: %w", m.name, err)
		}
		p.waiting.Done(m)
	}
}

func (p *Provider) engage(ctx context.Context, aware multicluster.Aware, m *Member) error {
	p.mu.Lock()
	if p.members[m.name] != m || m.Synced.Load() { // removed, or queued twice
		p.mu.Unlock()
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	m.disengage = cancel
	p.mu.Unlock()

	m.cluster = newMemberCluster(p.scheme, m.Cache, m.registry.Send)
	m.Synced.Store(true)
	// The controllers of multicluster-runtime v0.24.1 keep one goroutine of each engagement until
	// they stop, also if the member is removed.
	err := aware.Engage(ctx, multicluster.ClusterName(m.name), m.cluster)
	if ctx.Err() != nil {
		return nil // removed meanwhile, or the hub shuts down
	}
	if err != nil {
		return err
	}
	m.registry.Engaged()
	return nil
}
