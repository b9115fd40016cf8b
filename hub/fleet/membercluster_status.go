package fleet

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// view is what the fleet knows of a member, as its status shows it.
type view struct {
	health       Health
	recheck      time.Duration
	fingerprint  string
	agentVersion string
	sessions     int32
	capacity     *placement.Capacity
	slots        map[placement.TemplateKey]int32
	current      map[string]string
	// heard is the last renewal that this hub received; zero: none.
	heard time.Time
}

// viewOf copies what the fleet knows of a member under its lock.
func (f *Fleet) viewOf(name string) (view, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.members[name]
	if m == nil {
		return view{}, false
	}
	v := view{
		fingerprint:  m.fingerprint,
		agentVersion: m.agentVersion,
		sessions:     f.placed.count(m.uid),
		capacity:     m.capacity,
		slots:        m.slots,
		current:      f.current,
	}
	if m.heardHere {
		v.heard = m.heard
	}
	v.health, v.recheck = judge(f.timings, m.signs, f.clock.Now())
	return v, true
}

// show tells the listeners when a member's health has changed by silence alone.
func (f *Fleet) show(name string) {
	f.mu.Lock()
	m := f.members[name]
	if m == nil {
		f.mu.Unlock()
		return
	}
	health, _ := judge(f.timings, m.signs, f.clock.Now())
	changed := m.shown != "" && m.shown != health
	m.shown = health
	f.mu.Unlock()
	if changed {
		f.tell(Change{Kind: MemberChanged, Member: m.name, UID: m.uid})
	}
}

// writeStatus makes a status say what the view shows. What the member last
// reported stays while it is away.
func writeStatus(status *v1alpha1.MemberClusterStatus, v view, generation int64) {
	status.ObservedGeneration = generation
	v1alpha1.SetCondition(&status.Conditions, generation, readyCondition(v, status.Conditions))
	status.Sessions = v.sessions
	if v.fingerprint != "" {
		status.Fingerprint = v.fingerprint
	}
	if v.agentVersion != "" {
		status.AgentVersion = v.agentVersion
	}
	if v.capacity == nil {
		return
	}
	status.Nodes = v.capacity.Nodes
	status.Templates = status.Templates[:0:0]
	for key, t := range v.capacity.Templates {
		if v.current[key.Name] != key.Revision {
			continue
		}
		status.Templates = append(status.Templates, v1alpha1.TemplateAvailability{
			Name: key.Name, Revision: key.Revision, Available: t.Available,
			Reason: t.Reason, Message: t.Message, Slots: v.slots[key],
		})
	}
	slices.SortFunc(status.Templates, func(a, b v1alpha1.TemplateAvailability) int { return cmp.Compare(a.Name, b.Name) })
}

// readyCondition says how alive a member is. While a new leader waits to hear
// of it, the last word stands.
func readyCondition(v view, before []metav1.Condition) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionReady}
	switch v.health {
	case HealthReady:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonConnected
		c.Message = "the agent is connected and renews its lease"
	case HealthSuspect:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonSuspect
		c.Message = "the agent has fallen silent: no new sessions go there; look at the agent and at the network between it and the hub"
	case HealthUnreachable:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonUnreachable
		c.Message = "the agent has been silent for long; what runs in the member goes on, and its sessions show their last known state"
	case HealthNeverConnected:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonNeverConnected
		c.Message = "no agent has connected yet: install one with a certificate for this MemberCluster's UID"
	case HealthUnknown:
		for _, old := range before {
			if old.Type == c.Type {
				return old
			}
		}
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonSuspect
		c.Message = "the hub has just started and has not heard of the agent yet"
	}
	return c
}
