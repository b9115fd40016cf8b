package placement

import (
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// readyFilter requires that the member's agent is connected and renews its lease.
var readyFilter = filter{
	name:  "Ready",
	check: func(_ *query, c *Candidate, _ *account) bool { return c.Ready },
	explain: func(_ *query, c *Candidate, _ *account) lack {
		remedy := c.Name
		if c.NotReady != "" {
			remedy += ": " + c.NotReady
		}
		return is("not ready", remedy)
	},
}

// schedulingFilter requires that the member accepts new sessions.
var schedulingFilter = filter{
	name: "Scheduling",
	check: func(_ *query, c *Candidate, _ *account) bool {
		return c.Scheduling == "" || c.Scheduling == v1alpha1.SchedulingActive
	},
	explain: func(_ *query, c *Candidate, _ *account) lack {
		if c.Scheduling == v1alpha1.SchedulingDraining {
			return is("draining", activate(c.Name))
		}
		return is("cordoned", activate(c.Name))
	},
}

func activate(name string) string {
	return fmt.Sprintf(`open it again: kubectl patch memberclusters %s --type merge -p '{"spec":{"scheduling":"Active"}}'`, name)
}

// taintFilter requires that the session tolerates every NoSchedule taint of the member.
var taintFilter = filter{
	name: "Taints",
	check: func(q *query, c *Candidate, _ *account) bool {
		return untolerated(q, c) == nil
	},
	explain: func(q *query, c *Candidate, _ *account) lack {
		return has("the taint "+untolerated(q, c).ToString(), "tolerate it in spec.placement.clusterTolerations")
	},
}

func untolerated(q *query, c *Candidate) *corev1.Taint {
	i := slices.IndexFunc(c.Taints, func(t corev1.Taint) bool { return t.Effect == corev1.TaintEffectNoSchedule && !q.tolerates(&t) })
	if i < 0 {
		return nil
	}
	return &c.Taints[i]
}

// tolerates reports whether the session or its policy tolerates the taint.
func (q *query) tolerates(taint *corev1.Taint) bool {
	return tolerated(taint, q.ClusterTolerations) || q.Policy != nil && tolerated(taint, q.Policy.ClusterTolerations)
}

// tolerated reports whether one of the tolerations matches the taint. Operators that
// compare numbers match nothing, nor does a toleration without a key, unless its operator
// is Exists.
func tolerated(taint *corev1.Taint, tolerations []corev1.Toleration) bool {
	return slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
		return (t.Key != "" || t.Operator == corev1.TolerationOpExists) && t.ToleratesTaint(logr.Logger{}, taint, false)
	})
}

// refusedFilter requires that the member has not refused the session recently. One that has refused
// it since no slot was free may still add a node for it.
var refusedFilter = filter{
	name:    "Refused",
	applies: func(q *query) bool { return len(q.Refused) > 0 },
	check: func(q *query, c *Candidate, a *account) bool {
		_, refused := q.Refused[c.UID]
		return !refused || q.refusedFree(c) && a.evaluate(q.class).growth != nil
	},
	explain: func(q *query, c *Candidate, _ *account) lack { return q.refusal(c) },
}

// refusedFree reports whether a candidate has refused the session only for lack of a free slot.
func (q *query) refusedFree(c *Candidate) bool {
	_, refused := q.Refused[c.UID]
	return refused && q.RefusedFree.Has(c.UID)
}

func (q *query) refusal(c *Candidate) lack {
	remedy := c.Name
	if why := q.Refused[c.UID]; why != "" {
		remedy += ": " + why
	}
	return lack{one: "refused it recently", many: "refused it recently", remedy: remedy}
}

// capFilter requires that the member has fewer sessions than its cap.
var capFilter = filter{
	name: "SessionCap",
	check: func(q *query, c *Candidate, _ *account) bool {
		return c.SessionCap == nil || q.sessions(c) < int64(*c.SessionCap)
	},
	explain: func(_ *query, _ *Candidate, _ *account) lack {
		return lack{
			one:    "is at its cap of sessions",
			many:   "are at their cap of sessions",
			remedy: "raise spec.sessionCap of the MemberCluster",
		}
	},
}
