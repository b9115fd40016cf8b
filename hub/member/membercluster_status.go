package member

import (
	"cmp"
	"reflect"
	"slices"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// view is the fleet's state of a member, for its status.
type view struct {
	health.Verdict
	facts
	counts
	// fenced is set while the fence is in effect.
	fenced bool
	// hubCluster is set if it is the cluster that the hub runs in.
	hubCluster bool
	current    map[string]string
	// ever is set if the member has ever connected.
	ever bool
	streamView
	// orphans describes the orphans in the member, for a condition.
	orphans string
	// excess is for how much longer the status shows that the agent reported too much.
	excess time.Duration
	// now is the time at which certificates are checked.
	now time.Time
	// members is the number of all members.
	members int
	// ledSince is when this hub began to lead.
	ledSince time.Time
	// listed are its templates, computed from the view if nil.
	listed *listedTemplates
}

// counts of a member's sessions.
type counts struct {
	// sessions counts those that run there or may, releasing those of them that were
	// released there.
	sessions, releasing int32
	// withheld is how many withdrawals without a durable cause are not sent.
	withheld int
}

// streamView is the state of a member's stream.
type streamView struct {
	// connected is set if a stream is open; synced if the member's inventory is also known.
	connected, synced bool
	// settling is for how much longer a broken or restored stream does not change the
	// status.
	settling time.Duration
}

// viewOf copies the fleet's state of a member.
func (f *Registry) viewOf(name string) (view, bool) {
	f.mu.Lock()
	m := f.members[name]
	if m == nil {
		f.mu.Unlock()
		return view{}, false
	}
	v := f.view(m)
	f.mu.Unlock()
	of := f.cache.Sessions(m.uid)[0]
	v.sessions, v.releasing = of.All, of.Releasing
	return v, true
}

// view copies the state of a member, without its sessions. The caller holds the lock.
func (f *Registry) view(m *member) view {
	now := f.now()
	agree := m.agreement == "" || m.agreement == protocol.Agrees
	v := view{
		Verdict:    m.assess(f.timings, now),
		facts:      m.facts,
		counts:     counts{withheld: len(m.withdrawals.held)},
		fenced:     m.fence.inEffect(now),
		hubCluster: f.inHubCluster(m),
		current:    f.current,
		ever:       m.heartbeats.EverConnected(),
		streamView: streamView{connected: m.peer != nil, synced: m.peer != nil && m.serving && agree},
		orphans:    m.cluster.Cache.Orphans(),
		excess:     m.excessShownFor(f.timings, now),
		now:        f.steady(now),
		members:    len(f.members),
		ledSince:   f.ledSince,
	}
	if v.State == health.Ready && !m.serving {
		since := m.lostAt
		if v.connected {
			since = m.connectedAt
		}
		v.settling = max(0, f.timings.Suspect-now.Sub(since))
	}
	if v.State == health.Ready {
		v.Recheck = 0 // see watchHealth
	}
	v.Recheck = health.Soonest(v.Recheck, v.settling, v.excess)
	return v
}

// show notifies the listeners when a member's health has changed by time alone, and of
// every lost member when a change of the fleet affects when its sessions are rescheduled.
func (f *Registry) show(name string) {
	f.mu.Lock()
	m := f.members[name]
	if m == nil {
		f.mu.Unlock()
		return
	}
	now := f.now()
	m.heartbeats.Update(f.timings, now)
	verdict := m.assess(f.timings, now)
	was := m.shown
	m.shown = verdict.State
	var changes []Change
	if was != m.shown {
		f.recent = recentDegradation{}
	}
	if was != "" && was != m.shown {
		log.Log.WithName("fleet").Info("Member changed its health", "member", m.name,
			"from", was, "to", m.shown, "reason", verdict.Cause, "silence", m.heartbeats.Silence(now).String())
		changes = append(changes, m.change(MemberChanged))
	}
	changes = append(changes, f.degradationChanges(now)...)
	f.mu.Unlock()
	f.notify(changes...)
}

// listedTemplates are the availabilities of templates in a member according to one report.
type listedTemplates struct {
	// capacity is weak: the report itself is not kept for as long as its list.
	capacity weak.Pointer[placement.Capacity]
	current  map[string]string
	list     []v1alpha1.TemplateAvailability
	omitted  int32
}

// templatesOf returns the availabilities of templates in a member. They are computed once for a
// report: a thousand members are checked twice a minute, and most reports do not change.
func (r *Reconciler) templatesOf(name string, v view) *listedTemplates {
	if last, ok := r.listed.Load(name); ok {
		// Neither of the two is ever changed.
		if known := last.(*listedTemplates); known.capacity == weak.Make(v.capacity) && reflect.ValueOf(known.current).Pointer() == reflect.ValueOf(v.current).Pointer() {
			return known
		}
	}
	listed := listTemplates(v)
	r.listed.Store(name, listed)
	return listed
}

func listTemplates(v view) *listedTemplates {
	l := &listedTemplates{capacity: weak.Make(v.capacity), current: v.current}
	if v.capacity != nil {
		l.list, l.omitted = availabilities(v)
	}
	return l
}

// writeStatus writes the view into a status. What the member last reported stays while it
// is not connected.
func writeStatus(status *v1alpha1.MemberClusterStatus, v view, generation int64) {
	status.ObservedGeneration = generation
	if v.revoked && status.Certificate != nil {
		// Empty, not nil: no issued certificate becomes valid again once the member is
		// allowed again.
		status.Certificate = &v1alpha1.MemberCertificate{}
	}
	for _, c := range conditionsOf(v, status) {
		v1alpha1.SetCondition(&status.Conditions, generation, c)
	}
	status.Sessions, status.Releasing = v.sessions-v.releasing, v.releasing
	status.HubCluster = v.hubCluster
	writeDrain(status, v, generation)
	writeFenced(status, v, generation)
	writeBuffers(status, v, generation)
	if v.fingerprint != "" {
		status.Fingerprint = v.fingerprint
	}
	if v.agentVersion != "" {
		status.AgentVersion, status.Restrictions, status.Door = v.agentVersion, v.restrictions, v.hasDoor
	}
	if v.capacity == nil {
		return
	}
	status.Nodes = v.capacity.Nodes
	writeNodeGroups(status, v.capacity.NodeGroups)
	listed := v.listed
	if listed == nil {
		listed = listTemplates(v)
	}
	status.TemplatesOmitted = listed.omitted
	if !slices.Equal(status.Templates, listed.list) {
		status.Templates = listed.list
	}
}

// availabilities returns the availability of the templates' current revisions, and how many
// are omitted.
func availabilities(v view) (list []v1alpha1.TemplateAvailability, omitted int32) {
	list = make([]v1alpha1.TemplateAvailability, 0, len(v.capacity.Templates))
	for key, t := range v.capacity.Templates {
		if v.current[key.Name] != key.Revision {
			continue
		}
		list = append(list, v1alpha1.TemplateAvailability{
			Name: key.Name, Revision: key.Revision, Available: t.Available,
			Reason: t.Reason, Message: t.Message, Slots: t.Slots, Growable: t.GrowableSlots,
		})
	}
	byName := func(a, b v1alpha1.TemplateAvailability) int { return cmp.Compare(a.Name, b.Name) }
	if more := len(list) - v1alpha1.MaxTemplateAvailabilities; more > 0 {
		slices.SortFunc(list, func(a, b v1alpha1.TemplateAvailability) int {
			return cmp.Or(count(a.Available)-count(b.Available), byName(a, b))
		})
		list, omitted = list[:v1alpha1.MaxTemplateAvailabilities], int32(more)
	}
	slices.SortFunc(list, byName)
	if len(list) < cap(list) {
		list = append(make([]v1alpha1.TemplateAvailability, 0, len(list)), list...) // kept: no spare capacity
	}
	return list, omitted
}

// writeNodeGroups writes the states of node groups into a status, ordered by name. A group's provisioning
// time changes there only if it differs by more than a fifth.
func writeNodeGroups(status *v1alpha1.MemberClusterStatus, reported []placement.NodeGroup) {
	if len(reported) == 0 {
		status.NodeGroups, status.GrowableNodes = nil, nil
		return
	}
	before := map[string]v1alpha1.Duration{}
	for i := range status.NodeGroups {
		before[status.NodeGroups[i].Name] = status.NodeGroups[i].ProvisioningTime
	}
	groups, growable := make([]v1alpha1.NodeGroupStatus, 0, len(reported)), int32(0)
	for i := range reported {
		g := &reported[i]
		groups = append(groups, nodeGroupStatus(g, before[g.Name]))
		growable += g.Growable
	}
	slices.SortFunc(groups, func(a, b v1alpha1.NodeGroupStatus) int { return cmp.Compare(a.Name, b.Name) })
	status.GrowableNodes = &growable
	if !equality.Semantic.DeepEqual(status.NodeGroups, groups) {
		status.NodeGroups = groups
	}
}

// nodeGroupStatus returns the state of a node group for a status that shows a provisioning time of it. A state
// that this hub does not know is Unknown.
func nodeGroupStatus(g *placement.NodeGroup, shown v1alpha1.Duration) v1alpha1.NodeGroupStatus {
	s := v1alpha1.NodeGroupStatus{
		Name: g.Name, Nodes: g.Nodes, Provisioning: g.Provisioning, Growable: g.Growable, MaxNodes: g.MaxNodes,
		State: g.State, Reason: g.Reason, Message: g.Message, ProvisioningTime: steadyTime(shown, g.ProvisioningTime),
	}
	switch s.State {
	case v1alpha1.NodeGroupAvailable, v1alpha1.NodeGroupFull, v1alpha1.NodeGroupExhausted, v1alpha1.NodeGroupUnknown:
	default:
		s.State = v1alpha1.NodeGroupUnknown
	}
	if !g.RetryTime.IsZero() {
		s.RetryTime = ptr.To(metav1.NewTime(g.RetryTime).Rfc3339Copy()) // as the API server returns it
	}
	return s
}

// provisioningStep is the precision of provisioning times in a status.
const provisioningStep = 5 * time.Second

// steadyTime returns the provisioning time to show, rounded to provisioningStep: the one that is shown,
// unless the reported one differs from it by more than a fifth.
func steadyTime(shown v1alpha1.Duration, reported time.Duration) v1alpha1.Duration {
	if reported == 0 {
		return ""
	}
	if was, ok := shown.Value(); ok && (reported-was).Abs() <= was/5 {
		return shown
	}
	return v1alpha1.DurationOf(max(reported.Round(provisioningStep), provisioningStep))
}
