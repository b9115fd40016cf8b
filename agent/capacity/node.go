package capacity

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
)

// Node is the part of a node that the model needs.
type Node struct {
	Name        string
	Labels      map[string]string
	Taints      []corev1.Taint
	Allocatable Resources
	// State is what decides about the Pods on it.
	State observe.Node
	// Open is set if it is ready and not cordoned.
	Open bool
	// Images of the node.
	Images ImageSet
	// Capacity, which counts for limits of node groups, and Created are only for these.
	Capacity Resources
	Created  time.Time
	// ProviderID of its instance, by which a node group's NodeClaim has the same node.
	ProviderID string
}

// NodeOf reads a node.
func NodeOf(n *corev1.Node) Node {
	out := Node{
		Name:        n.Name,
		Labels:      n.Labels,
		Taints:      n.Spec.Taints,
		Allocatable: ResourcesOf(n.Status.Allocatable),
		State:       observe.Node{Known: true},
		Images:      imageSetOf(n.Status.Images),
		Capacity:    ResourcesOf(n.Status.Capacity),
		Created:     n.CreationTimestamp.Time,
		ProviderID:  n.Spec.ProviderID,
	}
	out.State.OutOfService = slices.ContainsFunc(out.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
	if i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }); i >= 0 {
		c := &n.Status.Conditions[i]
		out.State.Ready, out.State.Since = c.Status == corev1.ConditionTrue, c.LastTransitionTime.Time
	}
	out.Open = out.State.Ready && !n.Spec.Unschedulable
	return out
}

// constraints decide which nodes a Pod may use, whatever their free capacity.
type constraints struct {
	selector    map[string]string
	tolerations []corev1.Toleration
	// topologies of which the node must match one, for the Pod's volume. Without any,
	// every node matches.
	topologies []corev1.TopologySelectorTerm
}

// allow reports whether a Pod may be scheduled to the node as it is now.
func (c *constraints) allow(n *Node) bool {
	return n.Open && c.selects(n) && c.matchTopology(n) && untolerated(n.Taints, c.tolerations, false) == nil
}

// matchTopology reports whether a volume can be provisioned for the node.
func (c *constraints) matchTopology(n *Node) bool {
	return len(c.topologies) == 0 || slices.ContainsFunc(c.topologies, func(term corev1.TopologySelectorTerm) bool {
		return len(term.MatchLabelExpressions) > 0 && !slices.ContainsFunc(term.MatchLabelExpressions,
			func(e corev1.TopologySelectorLabelRequirement) bool {
				return !slices.Contains(e.Values, n.Labels[e.Key])
			})
	})
}

func (c *constraints) selects(n *Node) bool {
	for key, value := range c.selector {
		if got, ok := n.Labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// temporaryTaintPrefix is the prefix of taints that Kubernetes sets on a node for a time:
// not ready, cordoned, under pressure.
const temporaryTaintPrefix = "node.kubernetes.io/"

// untolerated returns the first taint that the tolerations don't tolerate.
func untolerated(taints []corev1.Taint, tolerations []corev1.Toleration, ignoreTemporary bool) *corev1.Taint {
	for i := range taints {
		t := &taints[i]
		if t.Effect != corev1.TaintEffectNoSchedule && t.Effect != corev1.TaintEffectNoExecute ||
			ignoreTemporary && strings.HasPrefix(t.Key, temporaryTaintPrefix) {
			continue
		}
		// Operators that compare numbers match nothing, nor does Equal without a key.
		if !slices.ContainsFunc(tolerations, func(o corev1.Toleration) bool {
			return (o.Key != "" || o.Operator == corev1.TolerationOpExists) && o.ToleratesTaint(logr.Logger{}, t, false)
		}) {
			return t
		}
	}
	return nil
}

// freeAfter returns what is free on a node with this use by bound Pods.
func (n *node) freeAfter(used Resources) Resources {
	if n.free == nil {
		n.free = maps.Clone(n.Allocatable)
		n.free.add(used, -1)
	}
	return n.free
}
