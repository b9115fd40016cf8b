package observe

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// IdleAfter is how long a desktop must not have been used until its status shows that.
const IdleAfter = 5 * time.Minute

// Use is what is known of a desktop's use.
type Use struct {
	// Known is set once its use was reported.
	Known bool
	// Since is when it was last used, by the member's clock, and zero for less than
	// IdleAfter.
	Since time.Time
}

// ShowIdle sets in a status since when a running desktop is not used. What an earlier
// process has written stands until there is a report. A period without use costs two
// writes: it is set once, and removed by the next use.
func ShowIdle(s *api.SessionAssignmentStatus, u Use, running bool) {
	switch {
	case !running, u.Known && u.Since.IsZero():
		s.IdleSince = nil
	case !u.Known:
	case s.IdleSince == nil || u.Since.Sub(s.IdleSince.Time).Abs() > clockStep:
		s.IdleSince = &metav1.Time{Time: u.Since.Truncate(time.Second)}
	}
}
