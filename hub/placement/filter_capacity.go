package placement

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// capacityFilter requires that some node of the member has capacity for all of the session,
// besides reservations and headroom: one that exists, or one of a node group that the request may
// use.
var capacityFilter = filter{
	name: "Capacity",
	check: func(q *query, c *Candidate, a *account) bool {
		_, left := q.offer(c, a)
		return left > 0 && (q.isCurrent(c) && q.Current.UsesCapacity || !a.harms(q.class))
	},
	explain: func(q *query, c *Candidate, a *account) lack {
		known := a.evaluate(q.class)
		switch {
		case q.refusedFree(c):
			return q.refusal(c)
		case q.slots(c, a, known) > 0 && q.left(c, a, known) <= 0:
			l := lack{
				one:    "keeps its last free capacity for failover",
				many:   "keep their last free capacity for failover",
				remedy: "spec.headroomPercent of the MemberCluster",
			}
			if q.Policy != nil && q.Policy.HeadroomPercent > c.HeadroomPercent {
				l.remedy = "spec.headroomPercent of " + q.policyRef()
			}
			return l
		case known.growth != nil && q.left(c, a, known) > 0 && !a.harms(q.class):
			return notAdmitted(q, c, known.growth)
		case known.total() > 0:
			return lack{
				one:    "has just reserved its last capacity for other sessions",
				many:   "have just reserved their last capacity for other sessions",
				remedy: "wait until they have started, or add nodes",
			}
		}
		if a.grows {
			if l := addsNone(c.Capacity, q.class); l != nil {
				return *l
			}
		}
		return a.shortage(q.class)
	},
}

// shortage returns the resources of which no node has enough, or that each is available
// but not on one node. Nodes that are being added or may be added count.
func shortage(s *shape, t TemplateCapacity) lack {
	var names, details []string
	severity := int64(0)
	for _, n := range s.needs {
		largest := t.largestFree(n.name)
		if largest >= n.amount {
			continue
		}
		names = append(names, resourceText(n.name))
		details = append(details, fmt.Sprintf("largest free on a node %s, requested %s",
			v1alpha1.AmountText(n.name, roundToQuarter(largest, n.amount)), v1alpha1.AmountText(n.name, n.amount)))
		severity -= largest * 4 / n.amount
	}
	if len(names) == 0 {
		return has("no single node with capacity for all of it", "the free capacity is on different nodes; request less, or add a node")
	}
	what := strings.Join(names, " and ")
	return lack{one: "lacks " + what, many: "lack " + what,
		remedy: strings.Join(details, "; "), severity: severity}
}

func (t *TemplateCapacity) largestFree(name corev1.ResourceName) int64 {
	largest := int64(0)
	for i := range t.Buckets {
		largest = max(largest, t.Buckets[i].freeOf(name))
	}
	if t.Growth != nil {
		for _, buckets := range [][]NodeGroupBucket{t.Growth.Provisioning, t.Growth.Growable} {
			for i := range buckets {
				largest = max(largest, buckets[i].freeOf(name))
			}
		}
	}
	return largest
}

// freeOf returns how much of a resource is free on each node; 0 if there is no node.
func (b *Bucket) freeOf(name corev1.ResourceName) int64 {
	if b.Nodes <= 0 {
		return 0
	}
	return b.Free.Of(name)
}

// roundToQuarter rounds the free amount down to quarters of the requested one, so that the
// message of a pending session does not change with every Pod that starts or ends.
func roundToQuarter(free, requested int64) int64 {
	if requested < 4 {
		return free
	}
	return requested * (free * 4 / requested) / 4
}

func resourceText(name corev1.ResourceName) string {
	if name == corev1.ResourcePods {
		return "capacity for another Pod"
	}
	return string(name)
}
