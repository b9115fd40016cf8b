package placement

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// readyFilter: the member's agent is connected and renews its lease.
type readyFilter struct{}

func (readyFilter) Name() string { return "Ready" }

func (readyFilter) Check(_ *query, c *Candidate, _ *account) bool { return c.Ready }

func (readyFilter) Explain(_ *query, c *Candidate, _ *account) lack {
	remedy := c.Name
	if c.NotReady != "" {
		remedy += ": " + c.NotReady
	}
	return lack{one: "is not ready", many: "are not ready", remedy: remedy}
}

// schedulingFilter: the member takes new sessions.
type schedulingFilter struct{}

func (schedulingFilter) Name() string { return "Scheduling" }

func (schedulingFilter) Check(_ *query, c *Candidate, _ *account) bool {
	return c.Scheduling == "" || c.Scheduling == v1alpha1.SchedulingActive
}

func (schedulingFilter) Explain(_ *query, c *Candidate, _ *account) lack {
	if c.Scheduling == v1alpha1.SchedulingDraining {
		return lack{one: "is draining", many: "are draining", remedy: activate(c.Name)}
	}
	return lack{one: "is cordoned", many: "are cordoned", remedy: activate(c.Name)}
}

func activate(name string) string {
	return fmt.Sprintf(`open it again: kubectl patch memberclusters %s --type merge -p '{"spec":{"scheduling":"Active"}}'`, name)
}

// taintFilter: the session tolerates every NoSchedule taint of the member.
type taintFilter struct{}

func (taintFilter) Name() string { return "Taints" }

func (taintFilter) Check(q *query, c *Candidate, _ *account) bool {
	return untolerated(q, c) == nil
}

func (taintFilter) Explain(q *query, c *Candidate, _ *account) lack {
	taint := untolerated(q, c).ToString()
	return lack{
		one:    "has the taint " + taint,
		many:   "have the taint " + taint,
		remedy: "tolerate it in spec.placement.clusterTolerations",
	}
}

func untolerated(q *query, c *Candidate) *corev1.Taint {
	for i := range c.Taints {
		t := &c.Taints[i]
		if t.Effect == corev1.TaintEffectNoSchedule && !q.tolerates(t) {
			return t
		}
	}
	return nil
}

// tolerates is whether the session or its policy tolerates the taint.
func (q *query) tolerates(taint *corev1.Taint) bool {
	return tolerated(taint, q.ClusterTolerations) || q.Policy != nil && tolerated(taint, q.Policy.ClusterTolerations)
}

// tolerated is whether one of the tolerations matches the taint, as
// Kubernetes has it; operators that compare numbers match nothing.
func tolerated(taint *corev1.Taint, tolerations []corev1.Toleration) bool {
	for i := range tolerations {
		t := &tolerations[i]
		if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
			continue
		}
		switch t.Operator {
		case corev1.TolerationOpExists:
			return true
		case corev1.TolerationOpEqual, "":
			if t.Key == taint.Key && t.Value == taint.Value {
				return true
			}
		}
	}
	return false
}

// refusedFilter: the member has not refused the session lately.
type refusedFilter struct{}

func (refusedFilter) Name() string { return "Refused" }

func (refusedFilter) Check(q *query, c *Candidate, _ *account) bool {
	if len(q.Refused) == 0 {
		return true
	}
	_, refused := q.Refused[c.UID]
	return !refused
}

func (refusedFilter) Explain(q *query, c *Candidate, _ *account) lack {
	remedy := c.Name
	if why := q.Refused[c.UID]; why != "" {
		remedy += ": " + why
	}
	return lack{one: "refused it recently", many: "refused it recently", remedy: remedy}
}

// capFilter: the member holds fewer sessions than it may.
type capFilter struct{}

func (capFilter) Name() string { return "SessionCap" }

func (capFilter) Check(q *query, c *Candidate, _ *account) bool {
	return c.SessionCap == nil || q.sessions(c) < int64(*c.SessionCap)
}

func (capFilter) Explain(_ *query, _ *Candidate, _ *account) lack {
	return lack{
		one:    "is at its cap of sessions",
		many:   "are at their cap of sessions",
		remedy: "raise spec.sessionCap of the MemberCluster",
	}
}
