package member

import (
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/member/cluster"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Options of a Fleet.
type Options struct {
	// Scheme with the API of this project.
	Scheme *runtime.Scheme
	// Clock for the health of members.
	Clock clock.WithTicker
	// Timings of the link.
	Timings health.Timings
	// Cache of the scheduler.
	Cache Cache
	// Proven reports whether a proof shows that an epoch of a session was placed in a
	// member. It must not call the fleet. If nil, nothing is proven.
	Proven func(member, session types.UID, epoch int64, proof string) bool
}

// Fleet is the hub leader's state of its members. All of it can be rebuilt from the hub's
// API server and the agents' inventories. Each part has one concern; all share one state.
type Fleet struct {
	*state
	Registry
	Directory
	Restores
}

// Registry has the members as their MemberClusters declare them, with their state.
type Registry struct{ *state }

// Restores delays decisions after the hub was restored from a backup.
type Restores struct{ *state }

// state is the state that the parts of a Fleet share.
type state struct {
	// Provider of the members' clusters. Its lock is acquired under the state's.
	*cluster.Provider

	clock   clock.WithTicker
	timings health.Timings
	cache   Cache
	proven  func(member, session types.UID, epoch int64, proof string) bool
	// started is when the process made the fleet; see steady.
	started time.Time
	// unfenceWait is how long a returning agent waits until its member is no longer
	// declared fenced.
	unfenceWait time.Duration

	mu sync.Mutex
	leadership
	registered
	// removed are the members that were removed while this hub led, with their last
	// heartbeats.
	removed map[types.UID]time.Time
	// hubCluster is the fingerprint of the cluster that the hub runs in.
	hubCluster string
	templateState
	// door is what every door needs, nil until it is known.
	door *fleetv1.DoorConfig
	// evaluating is since when sessions wait for the members to evaluate a template.
	evaluating map[placement.TemplateKey]time.Time
	recovery   recovery
	// degraded is the degradation that listeners were last notified of.
	degraded  failover.Degradation
	recent    recentDegradation
	listeners []func(Change)
}

// registered has the members that MemberClusters declare.
type registered struct {
	members map[string]*member
	uids    map[types.UID]*member
	// ordered are all members, in the order in which they were registered. all are the same as
	// candidates; listed is unset if what they declare has changed.
	ordered []*member
	all     []placement.Candidate
	listed  bool
	// some are the candidates of the last snapshot of some members.
	some []placement.Candidate
	// settled is until when each candidate stays as it is in all, unless its member changes.
	settled []time.Time
}

// unsettle makes the next decision read a member, whose agent has changed what is known of it.
// After a change of what its MemberCluster declares, the next one reads all.
func (r *registered) unsettle(m *member) {
	if m.position < len(r.settled) {
		r.settled[m.position] = time.Time{}
	}
}

// leadership has the times since which this hub has led and run.
type leadership struct {
	// pauses of this hub; see now.
	pauses health.PauseDetector
	// began is when this hub began to lead: when it first registered a member. Earlier
	// events, which it did not observe, count against no member.
	began time.Time
	// ledSince is the same time, or the end of the last long pause since then.
	ledSince time.Time
}

// New returns a fleet without members.
func New(o Options) *Fleet {
	s := &state{
		Provider:      cluster.NewProvider(o.Scheme),
		clock:         o.Clock,
		timings:       o.Timings,
		cache:         o.Cache,
		proven:        o.Proven,
		started:       o.Clock.Now(),
		unfenceWait:   unfenceWait,
		registered:    registered{members: map[string]*member{}, uids: map[types.UID]*member{}},
		removed:       map[types.UID]time.Time{},
		templateState: templateState{templates: &fleetv1.TemplateSet{}, sending: rate.NewLimiter(setsPerSecond, setsAtOnce), reported: map[placement.TemplateKey]templateReports{}},
		evaluating:    map[placement.TemplateKey]time.Time{},
	}
	return &Fleet{
		state: s, Registry: Registry{s}, Directory: Directory{s}, Restores: Restores{s},
	}
}

// ChangeKind is the kind of a change.
type ChangeKind int

// The kinds of change.
const (
	// MemberChanged means that a member's MemberCluster or health changed.
	MemberChanged ChangeKind = iota
	// MemberStream means that its agent disconnected, or that both sides began or ceased to
	// agree on its assignments. No session depends on that: see MemberChanged for its health.
	MemberStream
	// MemberConnected means that orders can be sent to it, and that placed and reported
	// sessions must be compared again.
	MemberConnected
	// MemberCapacity means that it may have more capacity, because of a capacity report, the
	// end of a session, or a released reservation.
	MemberCapacity
	// MemberTemplates means that it reports a change of whether some templates can run there,
	// or why they can't.
	MemberTemplates
	// MemberSessions means that more is placed there, or that the progress of its drain changed.
	MemberSessions
	// PolicyCapacity means that the caps of a policy count less than before, in any member.
	// It names no member.
	PolicyCapacity
)

// Change notifies a listener of a change of a member or a policy.
type Change struct {
	Kind   ChangeKind
	Member string
	UID    types.UID
	Policy string
	// Templates of MemberTemplates.
	Templates []placement.TemplateKey
}

// Listen calls the listener on every change, from any goroutine and never under the fleet's
// lock; it must not block. It begins with the current state, and may receive a change twice.
func (f *Registry) Listen(listener func(Change)) {
	f.mu.Lock()
	f.listeners = append(f.listeners, listener)
	var now []Change
	for _, m := range f.members {
		now = append(now, m.change(MemberChanged))
		if m.serving && m.cluster.Synced.Load() {
			now = append(now, m.change(MemberConnected))
		}
	}
	f.mu.Unlock()
	for _, c := range now {
		listener(c)
	}
}

// notify calls the listeners. It is called without the lock.
func (f *state) notify(changes ...Change) {
	f.mu.Lock()
	listeners := slices.Clone(f.listeners)
	f.mu.Unlock()
	for _, c := range changes {
		for _, l := range listeners {
			l(c)
		}
	}
}

// edit changes a member, if it exists, and notifies the listeners if that changed anything.
func (f *state) edit(uid types.UID, kind ChangeKind, change func(m *member) (changed bool)) {
	f.mu.Lock()
	m := f.uids[uid]
	changed := m != nil && change(m)
	f.mu.Unlock()
	if changed {
		f.notify(m.change(kind))
	}
}

// Register registers the current state of a MemberCluster. It returns false, and changes
// nothing, if a later version was registered less than cacheLag ago: a controller that has
// just written a certificate registers what it wrote, and a lagging cache must not revert
// it.
func (f *Registry) Register(mc *v1alpha1.MemberCluster) bool {
	f.mu.Lock()
	m, ok := f.members[mc.Name]
	if ok && m.uid != mc.UID {
		f.removeLocked(m)
		defer f.cache.Removed(m.uid)
		ok = false
	}
	if f.began.IsZero() {
		f.began = f.now()
		f.ledSince = f.began
	}
	if !ok {
		m = newMember(mc, f.began)
		m.cluster = f.Add(mc.Name, clusterRegistry{fleet: f.state, member: m})
		f.members[mc.Name], f.uids[mc.UID] = m, m
		f.ordered = append(f.ordered, m)
	}
	now := f.now()
	if m.outdated(mc.ResourceVersion, now) {
		f.mu.Unlock()
		return false
	}
	changes := f.adopt(m, mc, !ok, now)
	f.mu.Unlock()
	f.notify(changes...)
	return true
}

// adopt updates a member, which may be new, from its MemberCluster, and returns the notifications.
// The caller holds the lock.
func (f *state) adopt(m *member, mc *v1alpha1.MemberCluster, added bool, now time.Time) (changes []Change) {
	m.version, m.adopted = mc.ResourceVersion, now
	declared := added || m.generation != mc.Generation || !maps.Equal(m.labels, mc.Labels)
	// Orders contain the URLs of sessions, which depend on these.
	moved := !added && m.serving && m.cluster.Synced.Load() &&
		(m.spec.IngressDomain != mc.Spec.IngressDomain || m.spec.IngressScheme != mc.Spec.IngressScheme || m.spec.IngressPort != mc.Spec.IngressPort)
	redirected := m.spec.IngressDomain != mc.Spec.IngressDomain
	regrouped := m.regrouped(&mc.Spec, f.clock.Now())
	revoked, fingerprint := m.revoked, m.fingerprint
	m.update(mc, f.timings, now)
	if regrouped {
		f.regroup(m)
	}
	if redirected {
		m.sendDoor(f.door)
	}
	if declared {
		f.listed = false
	}
	if declared || revoked != m.revoked {
		changes = append(changes, m.change(MemberChanged))
	}
	if len(changes) > 0 || fingerprint != m.fingerprint {
		f.recent = recentDegradation{}
	}
	if moved {
		changes = append(changes, m.change(MemberConnected))
	}
	return changes
}

// Remove removes a member whose MemberCluster is gone and ends its connection.
func (f *Registry) Remove(name string) {
	f.mu.Lock()
	var changes []Change
	if m := f.members[name]; m != nil {
		f.removeLocked(m)
		defer f.cache.Removed(m.uid)
		changes = append(changes, m.change(MemberChanged))
	}
	f.mu.Unlock()
	f.notify(changes...)
}

func (f *state) removeLocked(m *member) {
	f.recent = recentDegradation{}
	delete(f.members, m.name)
	delete(f.uids, m.uid)
	f.ordered = slices.DeleteFunc(f.ordered, func(other *member) bool { return other == m })
	f.listed = false
	f.setCapacity(m, nil)
	f.removed[m.uid] = m.lastHeartbeat
	if m.peer != nil {
		m.peer.Close(errRemoved)
		m.peer = nil
	}
	f.Provider.Remove(m.cluster)
}

// RefOf returns the permanent reference of the member that has a name now, and false if
// there is none. Call it after Get: then a cluster of a former member of that name accepts
// no orders any more.
func (f *Registry) RefOf(name string) (v1alpha1.ClusterRef, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[name]
	if m == nil {
		return v1alpha1.ClusterRef{}, false
	}
	return v1alpha1.ClusterRef{Name: m.name, UID: m.uid}, true
}

// NameOf returns the name of the member of a UID, and false if there is none.
func (f *Registry) NameOf(uid types.UID) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.uids[uid]
	if m == nil {
		return "", false
	}
	return m.name, true
}

// Reported returns the assignments that a member reports, each with whether it is active: none if
// there is no member of that name.
func (f *Registry) Reported(name string) map[types.NamespacedName]bool {
	f.mu.Lock()
	m := f.members[name]
	f.mu.Unlock() // caches call the fleet under their own lock
	if m == nil {
		return nil
	}
	return m.cluster.Cache.Reported()
}

// steady returns the wall clock's time at the start plus the time since: setting the wall
// clock meanwhile makes no certificate expire.
func (f *state) steady(now time.Time) time.Time {
	return f.started.Round(0).Add(now.Sub(f.started))
}
