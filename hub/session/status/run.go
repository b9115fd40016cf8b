package status

import (
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Continues reports whether the current placement continues an earlier run after a
// failover or failback: the password stays, since its user knows it and a copy that is
// kept was started with it.
func Continues(s *v1alpha1.VDISession, earlier Run) bool {
	f, at := s.Status.LastFailover, s.Status.Placement
	return f != nil && at.Run == 1 && earlier.Epoch < at.Epoch && (earlier.Epoch == f.FromEpoch || at.ClusterName == f.From)
}

// RunOf returns the run of a placement.
func RunOf(p *v1alpha1.Placement) Run {
	return Run{Epoch: p.Epoch, Number: p.Run}
}

// Run identifies a run of a session; runs of all its placements are ordered.
type Run struct{ Epoch, Number int64 }

func (r Run) String() string { return fmt.Sprintf("%d.%d", r.Epoch, r.Number) }

// Before reports whether another run came later.
func (r Run) Before(other Run) bool {
	return r.Epoch < other.Epoch || r.Epoch == other.Epoch && r.Number < other.Number
}

// ParseRun parses what String returns, and reports whether it could.
func ParseRun(text string) (Run, bool) {
	var r Run
	n, err := fmt.Sscanf(text, "%d.%d", &r.Epoch, &r.Number)
	return r, err == nil && n == 2 && r.String() == text
}
