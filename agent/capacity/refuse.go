package capacity

import (
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Lacks returns why an assignment that is about to be stored fits on no node, and "" if
// it does, or needs no capacity: its session is in the member already, or no Pod will be
// created. Pods without a node do not count: the hub has reports and reservations of
// these. What it can't know of is what others have used since the last report.
func (m *Model) Lacks(a Assignment) string {
	if a.Idle || m.sessions[a.Session] != nil {
		return ""
	}
	allowed := m.constraintsOf(a.podSpec())
	asked := a.Resources.ofPod().plus(m.runtimeClasses[a.RuntimeClass].Overhead)
	demand := asked.demand()
	usable := 0
	largest := Resources{}
	for _, n := range m.nodes {
		if !allowed.allow(&n.Node) {
			continue
		}
		usable++
		free := n.left(m.used[n.Name])
		if demand.timesIn(free) > 0 {
			return ""
		}
		largest.raise(free)
	}
	if usable == 0 {
		return "no node that the desktop may use is open to Pods"
	}
	if short := shortOf(asked, largest, "the most that is free on a node is"); short != "" {
		return "no node has enough room left: " + short
	}
	return "no single node has room left for all that is asked for"
}

// Refuses returns why an assignment should not be stored, and "" if it may be, or nothing
// is known yet.
func (w *Watcher) Refuses(a *v1alpha1.SessionAssignment) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced {
		return ""
	}
	return w.model.Lacks(AssignmentOf(a))
}
