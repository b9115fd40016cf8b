package member

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Agents that get new templates: so many in a second, and so many at once.
const (
	setsPerSecond = 100
	setsAtOnce    = 20
)

// templateState has the templates that agents evaluate.
type templateState struct {
	templates *fleetv1.TemplateSet
	// sending limits how many agents get new ones.
	sending *rate.Limiter
	// requested are the keys of templates; nil until they are read.
	requested templateKeys
	// current is the current revision of each template; replaced, never changed.
	current map[string]string
	// reported counts, by template, the members whose last report has it, and reporting those
	// with a report.
	reported  map[placement.TemplateKey]templateReports
	reporting int
}

// templateReports counts the members that have evaluated a template, and those that can run it.
type templateReports struct{ evaluated, available int }

// SetTemplates sets the template revisions that every agent evaluates, and sends them unless they
// are the same as before. Each agent then evaluates all its nodes again and reports all templates,
// so in a large fleet the agents get them one after another: 1,000 reports at once would delay the
// renewals of leases. One goroutine calls it. Current is the current revision of each template. It
// returns an error only when the context ends.
func (f *Registry) SetTemplates(ctx context.Context, set *fleetv1.TemplateSet, current map[string]string) error {
	f.mu.Lock()
	before, revised := f.templates, f.current == nil || !maps.Equal(f.current, current)
	f.current = current
	f.mu.Unlock()
	same := proto.Equal(before, set) // without the lock: it takes long for many templates
	if same && !revised {
		return nil
	}
	if same {
		set = before
	}
	keys := keysOf(set)
	f.mu.Lock()
	f.templates, f.requested = set, keys
	members := slices.Clone(f.ordered)
	if same { // the set of a member without buffers does not name the current revisions
		members = slices.DeleteFunc(members, func(m *member) bool { return len(m.buffers.slots) == 0 })
	}
	for _, m := range members {
		m.own = ownTemplates{}
	}
	f.mu.Unlock()
	for _, m := range members {
		if err := f.sending.Wait(ctx); err != nil {
			return fmt.Errorf("sending templates to agents: %w", err)
		}
		f.mu.Lock()
		f.sendTemplates(m)
		f.mu.Unlock()
	}
	return nil
}

// ownTemplates is the set of a member with node groups or buffers.
type ownTemplates struct {
	// of is the set of all members, whose templates it shares.
	of, set *fleetv1.TemplateSet
}

// hasOwn reports whether a member's agent gets more than the templates.
func (m *member) hasOwn() bool { return len(m.nodeGroups)+len(m.buffers.slots) > 0 }

// setOf returns the set that a member's agent evaluates: the one of all members, or one of its own, with
// the same templates, if it has node groups or buffers. It returns the same set until any of them changes.
func (f *templateState) setOf(m *member) *fleetv1.TemplateSet {
	if !m.hasOwn() {
		return f.templates
	}
	if m.own.of != f.templates {
		m.own = ownTemplates{of: f.templates, set: &fleetv1.TemplateSet{
			Templates: f.templates.GetTemplates(), NodeGroups: m.nodeGroups, Buffers: m.buffers.toWire(f.current),
		}}
	}
	return m.own.set
}

// regroup sends a member's agent the node groups that its MemberCluster now declares, and what its buffers
// are to hold now, at once. The caller holds the lock.
func (f *templateState) regroup(m *member) {
	m.nodeGroups, m.own = convert.NodeGroupsToWire(m.spec.NodeGroups), ownTemplates{}
	f.sendTemplates(m)
}

// openTemplates sends the templates to an agent that connects; to the same process as before (again)
// only if its first report shows that it lacks any: when all agents of a large fleet connect at once,
// each set is some 60 KB, after which the agent evaluates all its nodes again. A member with node groups or
// buffers always gets them, since no report shows which of their numbers its agent has. The caller holds
// the lock.
func (f *templateState) openTemplates(m *member, again bool) {
	if again && !m.hasOwn() {
		m.sent, m.sentTo, m.assumed = f.templates, m.peer, true
		return
	}
	f.sendTemplates(m)
}

// reportedTemplates sends the templates to an agent that was assumed to have them, if its first report
// of a connection shows that it does not, or that it has node groups or buffers which the member no longer
// has. A revision has the same requirements always. The caller holds the lock.
func (f *templateState) reportedTemplates(m *member, report *fleetv1.CapacityReport, known *placement.Capacity) {
	if !m.assumed {
		return
	}
	m.assumed = false
	if !f.requested.equal(report, known) || len(known.NodeGroups)+len(known.Buffers) > 0 {
		m.sent = nil
		f.sendTemplates(m)
	}
}

// sendTemplates sends the templates, with the member's node groups and buffers, to its agent unless it has
// them. The caller holds the lock.
func (f *templateState) sendTemplates(m *member) {
	if m.peer == nil {
		return
	}
	if set := f.setOf(m); m.sentTo != m.peer || m.sent != set {
		m.sent, m.sentTo, m.assumed = set, m.peer, false
		m.peer.SetTemplates(set)
	}
}

// CanRun counts the members that can run a template revision, and all members.
func (f *Registry) CanRun(template, revision string) (can, of int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.reported[placement.TemplateKey{Name: template, Revision: revision}]
	return int32(n.available), int32(len(f.members)) //nolint:gosec // no billions of members
}

// setCapacity sets what a member last reported, nil for nothing. The caller holds the lock.
func (f *state) setCapacity(m *member, now *placement.Capacity) {
	was := m.capacity
	if now == was {
		return // the agent repeats a report that is as it was
	}
	m.capacity = now
	f.reporting += count(now != nil) - count(was != nil)
	before, after := was.ByTemplate(), now.ByTemplate()
	for key := range after {
		is := after[key].Available
		if t, known := before[key]; !known || t.Available != is {
			f.countReport(key, count(!known), count(is)-count(t.Available))
		}
	}
	for key := range before {
		if _, known := after[key]; !known {
			f.countReport(key, -1, -count(before[key].Available))
		}
	}
}

// countReport adds to the counts of a template.
func (f *state) countReport(key placement.TemplateKey, evaluated, available int) {
	n := f.reported[key]
	n.evaluated, n.available = n.evaluated+evaluated, n.available+available
	if f.reported[key] = n; n.evaluated == 0 {
		delete(f.reported, key)
	}
}

// SetDoor sets what the doors of all members need, apart from their domains, and sends it to the agents that have
// one.
func (f *Directory) SetDoor(config *fleetv1.DoorConfig) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.door = config
	for _, m := range f.ordered {
		m.sendDoor(config)
	}
}

// sendDoor sends a connected agent what its member's door needs, once that is known. The caller holds the lock.
func (m *member) sendDoor(common *fleetv1.DoorConfig) {
	if m.peer != nil && m.hasDoor && common != nil {
		m.peer.SetDoor(&fleetv1.DoorConfig{ConsoleOrigin: common.GetConsoleOrigin(), Keys: common.GetKeys(), Domain: m.spec.IngressDomain})
	}
}
