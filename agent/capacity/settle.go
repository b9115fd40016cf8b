package capacity

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
)

// dependence is what an unbound Pod depends on that has no node.
type dependence struct {
	kind dependenceKind
	// group is its node group. Without any, nothing serves it.
	group string
	// usual is how long a node of the group usually took when the Pod began to depend on it.
	usual time.Duration
	// class of the Pod.
	class nodegroup.Class
	// since is when it began to depend on this kind of nodes of the group, and from when it began to depend on any
	// that the group is adding, or may add.
	since, from time.Time
}

// isGrowth reports whether the Pod waits for a node.
func (d *dependence) isGrowth() bool { return d.kind == onProvisioning || d.kind == onGrowable }

// hasFailed reports whether its scale-up has failed, which the status of its session shows.
func (d *dependence) hasFailed(now time.Time) bool {
	return d.kind == onFailure && now.Sub(d.since) >= failedFor
}

type dependenceKind int8

const (
	// onNothing: no node group can serve the Pod.
	onNothing dependenceKind = iota
	// onProvisioning: a node that the group is adding.
	onProvisioning
	// onGrowable: a node that the group may add.
	onGrowable
	// onFailure: the group could serve the Pod, and adds no node for it.
	onFailure
)

// settle assigns the unbound Pods to nodes: to existing ones, else to provisioning, else to growable ones. It
// returns what is free then on the existing nodes that got any; the others are in the growth of the model.
func settle(m *Model) (assumed map[string]Resources) {
	assumed = map[string]Resources{}
	g := m.growth
	if g == nil {
		for _, p := range podGroups(m) {
			p.assume(m, assumed)
		}
		return assumed
	}
	g.evaluate(m)
	before := g.depends
	g.depends = map[types.UID]dependence{}
	for _, p := range podGroups(m) {
		left := p.owners[p.assume(m, assumed):]
		g.place(p, left, func(owner types.UID, d dependence) {
			d.since, d.from, d.class = m.now, m.now, p.key.class
			if was, ok := before[owner]; ok && was.group == d.group {
				d.usual = was.usual
				if was.kind == d.kind {
					d.since = was.since
				}
				if was.isGrowth() && d.isGrowth() {
					d.from = was.from
				}
			}
			g.depends[owner] = d
		})
	}
	m.pending.replace(m, g.views(m))
	return assumed
}

// place places Pods that fit on no existing node, and calls depends with each and what it depends on.
func (g *growth) place(p *podGroup, owners []types.UID, depends func(types.UID, dependence)) {
	var admitting []*futureGroup
	for _, f := range g.groups {
		if p.admits(f.Shape, nil) {
			admitting = append(admitting, f)
		}
	}
	for _, f := range admitting {
		owners = f.placeProvisioning(p, owners, func(owner types.UID) {
			depends(owner, dependence{kind: onProvisioning, group: f.Name, usual: f.Usual})
		})
	}
	for _, f := range admitting {
		if f.vetoes(p.key.class) {
			continue
		}
		owners = f.placeGrowable(p, owners, func(owner types.UID) {
			depends(owner, dependence{kind: onGrowable, group: f.Name, usual: f.Usual})
		})
	}
	failure := failureOf(admitting, p)
	for _, owner := range owners {
		depends(owner, failure)
	}
	g.hold(p, admitting, owners)
}

// hold deducts the nodes that Pods with a veto need until their scale-up has failed. Before that an autoscaler may
// still add them: Karpenter also rejects a Pod that it could not examine, and a decision that was made before the
// hub has the veto counts on the same nodes. After it, such Pods take nothing from others.
func (g *growth) hold(p *podGroup, admitting []*futureGroup, owners []types.UID) {
	owners = slices.DeleteFunc(slices.Clone(owners), func(owner types.UID) bool {
		d := g.depends[owner]
		return d.hasFailed(g.now)
	})
	for _, f := range admitting {
		if f.vetoes(p.key.class) {
			owners = f.placeGrowable(p, owners, func(types.UID) {})
		}
	}
}

// failureOf returns why none of the groups that admit a Pod adds a node for it. An exhausted group comes
// before a full one, since its retry may help.
func failureOf(admitting []*futureGroup, p *podGroup) (out dependence) {
	order := []string{nodegroup.StateAvailable, nodegroup.StateFull, nodegroup.StateExhausted}
	best := -1
	for _, f := range admitting {
		state, vetoed := f.State, f.vetoes(p.key.class)
		if vetoed && f.Reason == nodegroup.ReasonShapeUnknown {
			state = nodegroup.StateAvailable // it would have added one
		}
		taken := state != nodegroup.StateAvailable || f.growable == 0 || vetoed
		if rank := slices.Index(order, state); rank > best && taken && f.Possible && f.fits(p.demand) {
			best, out = rank, dependence{kind: onFailure, group: f.Name, usual: f.Usual}
		}
	}
	return out
}

// waiting returns the desktops' Pods that depend on growable nodes, by group: those for which kube-scheduler
// has found no node, and for which no autoscaler has stated that it adds none. Other owners' Pods may have
// requirements for which no autoscaler adds a node.
func (g *growth) waiting(m *Model) map[string]nodegroup.Waiting {
	out := map[string]nodegroup.Waiting{}
	for uid, d := range g.depends {
		if d.kind != onGrowable || !isUnschedulable(m, uid) || g.Rejected(d.group, d.class, m.now) {
			continue
		}
		p := m.pods[uid]
		since := p.Times.Unschedulable
		if d.since.After(since) {
			since = d.since
		}
		w := out[d.group]
		if len(w.Pods) == 0 || since.Before(w.Since) {
			w.Since = since
		}
		w.Pods = append(w.Pods, uid)
		out[d.group] = w
	}
	return out
}

// isUnschedulable reports whether a Pod is one of a session for which kube-scheduler has found no node.
func isUnschedulable(m *Model, pod types.UID) bool {
	p := m.pods[pod]
	return m.unbound[pod] != nil && p != nil && p.isPendingDesktop() && !p.Times.Unschedulable.IsZero()
}

// failsNow reports whether the scale-up for a Pod has failed since the last report.
func (g *growth) failsNow(m *Model) bool {
	for uid, d := range g.depends {
		if d.hasFailed(m.now) && m.pending.views[uid].Failed == "" {
			if p := m.pods[uid]; p != nil && p.isPendingDesktop() {
				return true
			}
		}
	}
	return false
}

// isPendingDesktop reports whether a session's status depends on the node groups.
func (p *Pod) isPendingDesktop() bool { return p.Session != "" && p.Node == "" && p.Times != nil }

// views returns what the sessions' Pods depend on, for their conditions.
func (g *growth) views(m *Model) map[types.UID]observe.Growth {
	groups := map[string]*futureGroup{}
	for _, f := range g.groups {
		groups[f.Name] = f
	}
	out := map[types.UID]observe.Growth{}
	for uid, d := range g.depends {
		if p := m.pods[uid]; p == nil || !p.isPendingDesktop() || d.kind == onNothing {
			continue
		}
		view := observe.Growth{Group: d.group, Usual: d.usual}
		if d.kind == onFailure {
			if !d.hasFailed(m.now) {
				continue
			}
			view = observe.Growth{Group: d.group, Failed: failureText(groups[d.group], d.class)}
		}
		out[uid] = view
	}
	return out
}

// failureText returns why a group adds no node for a class of Pods, and the remedy.
func failureText(f *futureGroup, class nodegroup.Class) string {
	veto, vetoed := f.Vetoes[class]
	switch {
	case f.State == nodegroup.StateFull:
		return f.Message
	case f.State != nodegroup.StateExhausted && vetoed:
		remedy := "check its resources and the node selector of its template, or add a node group"
		if veto.Limited {
			remedy = "raise the limits of the autoscaler, or add a node group"
		}
		return fmt.Sprintf("%s adds none for this desktop, %s: %s", veto.By, veto.Message, remedy)
	case f.State == nodegroup.StateAvailable:
		return "the nodes that it may add are for other pending Pods: raise its limits"
	}
	retry := ""
	if !f.RetryTime.IsZero() {
		retry = f.RetryTime.UTC().Format("; next attempt at 15:04 UTC")
	}
	return fmt.Sprintf("%s, %s%s: %s", f.Reason, f.Message, retry, remedies[f.Reason])
}

// remedies by the reason of an exhausted group.
var remedies = map[string]string{
	nodegroup.ReasonInsufficientCapacity: "raise the quota, or add a node group",
	nodegroup.ReasonNotTriggered:         "check the autoscaler, or add a node group",
	nodegroup.ReasonProvisioningTimeout:  "check why its nodes do not become Ready, or add a node group",
}

// pendingPods is what the sessions' unbound Pods depend on, and whose dependence has changed.
type pendingPods struct {
	views map[types.UID]observe.Growth
	// changed are the Pods since the last call of Model.ChangedPods.
	changed map[types.NamespacedName]bool
}

// replace replaces the dependences. A Pod that has a node now, or is gone, has its own event.
func (p *pendingPods) replace(m *Model, views map[types.UID]observe.Growth) {
	note := func(uid types.UID) {
		if pod := m.pods[uid]; pod != nil && pod.isPendingDesktop() {
			if p.changed == nil {
				p.changed = map[types.NamespacedName]bool{}
			}
			p.changed[pod.Times.Key] = true
		}
	}
	for uid, v := range views {
		if p.views[uid] != v {
			note(uid)
		}
	}
	for uid := range p.views {
		if _, still := views[uid]; !still {
			note(uid)
		}
	}
	p.views = views
}

// take returns the Pods whose dependence has changed, ordered by name.
func (p *pendingPods) take() []types.NamespacedName {
	out := make([]types.NamespacedName, 0, len(p.changed))
	for key := range p.changed {
		out = append(out, key)
	}
	p.changed = nil
	slices.SortFunc(out, func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}
