package lifecycle

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// stop ends the run of a session whose desktop is not to run. It keeps its placement, home
// and URL; its member's next report releases its slot. A session that has failed
// permanently is stopped anyway, even if it is to be retried.
func stop(p *pass) next {
	s, now := p.Session, p.in.Now
	away := p.in.Members[s.Status.Placement.ClusterUID].Health == health.Unreachable
	why := status.StopReasonOf(s, p.spec, away, now)
	if s.Status.Placement.Idle || why == status.NotStopped && status.FailedPermanently(s) == nil {
		return proceed
	}
	s.Status.Placement.Idle = true
	status.EndRun(s, now)
	switch cluster := s.Status.Placement.ClusterName; why {
	case status.StopSuspended:
		p.normal(v1alpha1.EventSuspended, "Suspend", fmt.Sprintf("its desktop in %s is stopped, as spec.operatingMode requires; its home and its URL are kept", cluster))
	case status.StopExpired:
		p.warn(v1alpha1.EventExpired, "Expire", status.ExpiredMessage(s, p.spec))
	default:
		p.warn(v1alpha1.EventFailed, "Fail", fmt.Sprintf("failed permanently in %s: %s", cluster, status.FailedPermanently(s).Message))
	}
	return proceed
}

// keepStopped keeps a session stopped. A reservation of a resume that could not be written is
// released, and missing capacity to resume is no longer shown.
func keepStopped(p *pass) {
	s := p.Session
	p.Release = true
	if meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionScheduled) {
		return
	}
	status.SetTrue(s, v1alpha1.ConditionScheduled, v1alpha1.ReasonPlaced, s.Status.Placement.ClusterName+": it is placed there, and idle")
}
