package placement

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// capacityFilter requires that some node of the member has free capacity for all of
// the session, besides reservations and headroom.
var capacityFilter = filter{
	name: "Capacity",
	check: func(q *query, c *Candidate, a *account) bool {
		return q.left(c, a) > 0 && (q.isCurrent(c) && q.Current.UsesCapacity || !a.harms(q.class))
	},
	explain: func(q *query, c *Candidate, a *account) lack {
		switch {
		case q.slots(c, a) > 0 && q.left(c, a) <= 0:
			l := lack{
				one:    "keeps its last free capacity for failover",
				many:   "keep their last free capacity for failover",
				remedy: "spec.headroomPercent of the MemberCluster",
			}
			if q.Policy != nil && q.Policy.HeadroomPercent > c.HeadroomPercent {
				l.remedy = "spec.headroomPercent of " + q.policyRef()
			}
			return l
		case a.evaluate(q.class).slots > 0:
			return lack{
				one:    "has just reserved its last capacity for other sessions",
				many:   "have just reserved their last capacity for other sessions",
				remedy: "wait until they have started, or add nodes",
			}
		}
		return a.shortage(q.class)
	},
}

// left returns how many slots the request may use, before the check for harm to outstanding
// reservations.
func (q *query) left(c *Candidate, a *account) int64 {
	left := q.slots(c, a)
	if q.Failover {
		return left
	}
	return left - headroom(q.headroomPercent(c), q.sessions(c), left)
}

// slots returns the slots that no other session uses or has reserved.
func (q *query) slots(c *Candidate, a *account) int64 {
	slots := a.slots(q.class)
	if q.isCurrent(c) && q.Current.UsesCapacity {
		slots += a.own(q.UID, q.class)
	}
	return slots
}

// shortage returns the resources of which no node has enough, or that each is available
// but not on one node.
func shortage(s *shape, buckets []Bucket) lack {
	var names, details []string
	severity := int64(0)
	for _, n := range s.needs {
		largest := largestFree(buckets, n.name)
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

func largestFree(buckets []Bucket, name corev1.ResourceName) int64 {
	largest := int64(0)
	for _, b := range buckets {
		if b.Nodes > 0 {
			largest = max(largest, b.Free.Of(name))
		}
	}
	return largest
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
