package observe

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// IdleAfter is how long nobody must have used a desktop for its status to say so.
const IdleAfter = 5 * time.Minute

// Use is what is known of a desktop's use.
type Use struct {
	// Known: somebody has told.
	Known bool
	// Since is when it was last used, by the member's clock; zero: that is not
	// worth telling yet.
	Since time.Time
}

// ShowIdle puts into a status since when nobody uses a desktop of which a run is
// on. What an earlier process has written stands until somebody tells. A spell
// without use costs two writes: it is told once, and taken away by the next use.
func ShowIdle(s *api.SessionAssignmentStatus, u Use, running bool) {
	switch {
	case !running, u.Known && u.Since.IsZero():
		s.IdleSince = nil
	case !u.Known:
	case s.IdleSince == nil || u.Since.Sub(s.IdleSince.Time).Abs() > clockStep:
		s.IdleSince = &metav1.Time{Time: u.Since.Truncate(time.Second)}
	}
}
