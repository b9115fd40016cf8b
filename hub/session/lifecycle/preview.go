package lifecycle

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Preview is the request that a session would make if it were placed now.
type Preview struct {
	// Refused is why the session is not accepted; nil if it is, and the rest is set.
	Refused *metav1.Condition
	// Held is the condition Scheduled of a session that would not be placed now
	// whatever the capacity; nil if it would.
	Held *metav1.Condition
	// Request that it would make.
	Request placement.Request
	// UserHome is set if the sessions of its user share a home.
	UserHome bool
}

// PreviewOf returns the request that the session of an Input would make without its
// placement.
func PreviewOf(in *Input) (Preview, error) {
	p := newPass(in)
	if resolve(p) == done {
		return Preview{}, p.Err
	}
	s, at := p.Session, in.Session.Status.Placement
	s.Status.Placement = nil
	if c := p.acceptance(); c.Status == metav1.ConditionFalse {
		return Preview{Refused: &c}, nil
	}
	if p.resources = p.spec.Resources.For(s.Spec.Resources); at != nil {
		p.resources = s.Status.Resources
	}
	held := unplaceable(p)
	governing, _ := in.Policies.Governing(s)
	out := Preview{Held: held, Request: p.request(governing), UserHome: p.spec.Home.Mode == v1alpha1.HomePerUser}
	if at != nil {
		out.Request.Current = &placement.CurrentPlacement{Cluster: at.ClusterUID, UsesCapacity: !at.Idle}
	}
	return out, nil
}

// unplaceable returns the condition Scheduled of a session that would not be placed now
// whatever the capacity, or nil. In both cases it sets p.home.pinned.
func unplaceable(p *pass) *metav1.Condition {
	s := p.Session
	n := p.acquireHome()
	switch {
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended:
		p.unscheduled(v1alpha1.ReasonSuspended, "suspended: set spec.operatingMode to Running; it is then placed as the verdicts show")
	case status.TimeOver(s, p.spec):
		p.unscheduled(v1alpha1.ReasonTimeExpired, status.ExpiredMessage(s, p.spec))
	case len(status.AwaitedReleases(s)) > 0:
		p.unscheduled(v1alpha1.ReasonReleasing, status.ReleasingMessage(s, ""))
	case n == proceed:
		return nil
	case p.Waits == v1alpha1.ReasonHomeInUse:
		p.home.pinned = memberOf(p.in.Home)
	}
	return meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled)
}
