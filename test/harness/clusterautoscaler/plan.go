package clusterautoscaler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Reasons for which a group adds no node for a Pod, besides those of kube-scheduler.
const (
	inBackoff  = "in backoff after failed scale-up"
	atItsLimit = "max node group size reached"
)

// expendable is the priority below which no node is added for a Pod.
const expendable = -10

// view is what one scan has found.
type view struct {
	now   time.Time
	nodes []*corev1.Node
	pods  []*corev1.Pod
	// groups are in the order of preference.
	groups []*groupView
}

// groupView is the state of a group in one scan.
type groupView struct {
	*Group
	// target is how many nodes it has and has requested; ready how many of them are usable, and
	// registered how many exist.
	target, registered, ready int
	// backoff is set while it is not used after a failure.
	backoff *backoff
}

// backoff is that a group is not used until a time, because of a failure.
type backoff struct {
	until         time.Time
	code, message string
}

// plan is what a scan decides.
type plan struct {
	// increases are the groups that are to add nodes.
	increases []increase
	// helpless are the Pods that no group adds a node for, with the reasons as in events.
	helpless map[types.UID]string
}

// increase is a number of nodes to add to a group for some Pods.
type increase struct {
	group    string
	from, to int
	most     int
	pods     []*corev1.Pod
}

// decide returns which nodes are to be added. Pods that have capacity on nodes that exist or are requested
// are left to kube-scheduler.
func decide(v *view) plan {
	out := plan{helpless: map[types.UID]string{}}
	bins := v.bins()
	added := map[string]*increase{}
	for _, p := range v.pending() {
		if slices.ContainsFunc(bins, func(b *bin) bool { return b.take(p, added) }) {
			continue
		}
		reasons := map[string]int{}
		opened := false
		for _, g := range v.groups {
			b, why := g.open(p, added)
			if why != "" {
				reasons[why]++
				continue
			}
			bins, opened = append(bins, b), true
			b.take(p, added)
			break
		}
		if !opened {
			out.helpless[p.UID] = counted(reasons)
		}
	}
	for _, g := range v.groups {
		if up := added[g.Name]; up != nil {
			out.increases = append(out.increases, *up)
		}
	}
	return out
}

// pending returns the Pods for which kube-scheduler found no node, the largest first.
func (v *view) pending() (out []*corev1.Pod) {
	for _, p := range v.pods {
		if isUnschedulable(p) {
			out = append(out, p)
		}
	}
	cpu := func(p *corev1.Pod) int64 { return requestsOf(p)[corev1.ResourceCPU] }
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(cpu(b), cpu(a)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return out
}

func isUnschedulable(p *corev1.Pod) bool {
	if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || p.Spec.Priority != nil && *p.Spec.Priority < expendable {
		return false
	}
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
	})
}

// bin is a node, one that is requested, or one that this scan adds.
type bin struct {
	labels map[string]string
	taints []corev1.Taint
	free   map[corev1.ResourceName]int64
	// adds is the group that this scan adds the node to; empty if it exists or is requested.
	adds string
}

// take places a Pod on the node if it fits.
func (b *bin) take(p *corev1.Pod, added map[string]*increase) bool {
	if b.lacks(p) != "" {
		return false
	}
	for name, amount := range requestsOf(p) {
		b.free[name] -= amount
	}
	if up := added[b.adds]; up != nil {
		up.pods = append(up.pods, p)
	}
	return true
}

// lacks returns why a Pod does not fit on the node, as kube-scheduler explains it; empty if it fits.
func (b *bin) lacks(p *corev1.Pod) string {
	for key, value := range p.Spec.NodeSelector {
		if got, ok := b.labels[key]; !ok || got != value {
			return "node(s) didn't match Pod's node affinity/selector"
		}
	}
	for i := range b.taints {
		if t := &b.taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(p, t) {
			return "node(s) had untolerated taint(s)"
		}
	}
	requests := requestsOf(p)
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		if requests[name] > b.free[name] {
			return "Insufficient " + string(name)
		}
	}
	return ""
}

func tolerates(p *corev1.Pod, t *corev1.Taint) bool {
	return slices.ContainsFunc(p.Spec.Tolerations, func(tol corev1.Toleration) bool {
		return (tol.Effect == "" || tol.Effect == t.Effect) && (tol.Key == "" || tol.Key == t.Key) &&
			(tol.Operator == corev1.TolerationOpExists || tol.Key == t.Key && tol.Value == t.Value)
	})
}

// bins returns the usable nodes with what is free on them, and an empty node for each that a group has
// requested and that is not usable yet.
func (v *view) bins() (out []*bin) {
	used := map[string]map[corev1.ResourceName]int64{}
	for _, p := range v.pods {
		if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		if used[p.Spec.NodeName] == nil {
			used[p.Spec.NodeName] = map[corev1.ResourceName]int64{}
		}
		for name, amount := range requestsOf(p) {
			used[p.Spec.NodeName][name] += amount
		}
	}
	for _, n := range v.nodes {
		if isReady(n) && !n.Spec.Unschedulable {
			out = append(out, emptyBin(n, "").without(used[n.Name]))
		}
	}
	for _, g := range v.groups {
		for range g.target - g.ready {
			out = append(out, emptyBin(g.shape(g.Name), ""))
		}
	}
	return out
}

func emptyBin(n *corev1.Node, adds string) *bin {
	return &bin{labels: n.Labels, taints: n.Spec.Taints, free: amountsOf(n.Status.Allocatable), adds: adds}
}

func (b *bin) without(used map[corev1.ResourceName]int64) *bin {
	for name, amount := range used {
		b.free[name] -= amount
	}
	return b
}

// open returns a node that the group adds for a Pod, or why it adds none.
func (g *groupView) open(p *corev1.Pod, added map[string]*increase) (opened *bin, why string) {
	b := emptyBin(g.shape(g.Name), g.Name)
	if why := b.lacks(p); why != "" {
		return nil, why
	}
	up := added[g.Name]
	if up == nil {
		up = &increase{group: g.Name, from: g.target, to: g.target, most: g.MaxSize}
	}
	switch {
	case g.backoff != nil:
		return nil, inBackoff
	case up.to >= g.MaxSize:
		return nil, atItsLimit
	}
	up.to++
	added[g.Name] = up
	return b, ""
}

// counted returns reasons with how many groups have each, as in kube-scheduler's messages.
func counted(reasons map[string]int) string {
	var out []string
	for why, n := range reasons {
		out = append(out, fmt.Sprintf("%d %s", n, why))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// isReady reports whether Pods are scheduled to a node.
func isReady(n *corev1.Node) bool {
	for i := range n.Spec.Taints {
		if key := n.Spec.Taints[i].Key; key == corev1.TaintNodeNotReady || key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// requestsOf returns the resources that a Pod requests of its node, and one of its Pods.
func requestsOf(p *corev1.Pod) map[corev1.ResourceName]int64 {
	out := amountsOf(p.Spec.Overhead)
	add := func(list corev1.ResourceList) {
		for name, amount := range amountsOf(list) {
			out[name] += amount
		}
	}
	for i := range p.Spec.Containers {
		add(p.Spec.Containers[i].Resources.Requests)
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c.Resources.Requests)
			continue
		}
		for name, amount := range amountsOf(c.Resources.Requests) {
			out[name] = max(out[name], amount)
		}
	}
	out[corev1.ResourcePods] = 1
	return out
}

// amountsOf returns the amounts of a list, of CPU in millicores.
func amountsOf(list corev1.ResourceList) map[corev1.ResourceName]int64 {
	out := map[corev1.ResourceName]int64{}
	for name, quantity := range list {
		if out[name] = quantity.Value(); name == corev1.ResourceCPU {
			out[name] = quantity.MilliValue()
		}
	}
	return out
}
