package observe

import (
	"fmt"
	"time"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Growth is what a Pod without a node depends on in the member's node groups.
type Growth struct {
	// Group is the node group that adds a node for it, or could. It is empty if none can.
	Group string
	// Usual is how long a node of the group usually took when the Pod began to depend on it. It does not
	// change: each change of a condition is a write of the member and one of the hub.
	Usual time.Duration
	// Failed is why the group adds no node, and the remedy. It is empty if it adds one.
	Failed string
}

// finding returns why a Pod for which kube-scheduler finds no node has none. A node that is being added is
// progress, which the hub does not move a session for.
func (g Growth) finding() (found finding, depends bool) {
	switch {
	case g.Group == "":
		return finding{}, false
	case g.Failed != "":
		return finding{api.ReasonScaleUpFailed, fmt.Sprintf("Node group %s adds no node: %s", g.Group, cause(g.Failed))}, true
	}
	usual := fmt.Sprintf("%.0f s", g.Usual.Seconds())
	return finding{api.ReasonNodeProvisioning, fmt.Sprintf("No node has free capacity; node group %s is adding one, usually %s", g.Group, usual)}, true
}
