package capacity

import (
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Lacks is why no node has room for an assignment that is about to be stored;
// empty where one has, and where that is not the question: the session is here
// already, or no Pod will be made. What is not bound yet stands in nobody's way:
// of that the hub has reports and reservations. What it can't know of is what
// others have taken since the last report.
func (m *Model) Lacks(a Assignment) string {
	if a.Idle || m.sessions[a.Session] != nil {
		return ""
	}
	allowed := m.constraintsOf(a.wishes())
	asked := a.Resources.ofPod().plus(m.runtimeClasses[a.RuntimeClass].Overhead)
	demand := asked.demand()
	usable := 0
	largest := Resources{}
	for _, n := range m.nodes {
		if !allowed.allow(&n.Node) {
			continue
		}
		usable++
		free := m.left(n)
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

// Refuses is why an assignment that is about to be stored is better not; empty:
// nothing speaks against it, or nothing is known yet.
func (w *Watcher) Refuses(a *v1alpha1.SessionAssignment) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.synced {
		return ""
	}
	return w.model.Lacks(AssignmentOf(a))
}
