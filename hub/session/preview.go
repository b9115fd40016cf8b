package session

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// Preview is the request that a session would make if it were placed now.
type Preview struct {
	// Refused is why the session is not accepted; nil: it is, and the rest is set.
	Refused *metav1.Condition
	// Held is the condition Scheduled of a session that would not be placed now whatever
	// capacity there is; nil: it would.
	Held *metav1.Condition
	// Request that it would make.
	Request placement.Request
	// Policy that governs it; empty: none does.
	Policy string
	// UserHome is set if the sessions of its user share a home.
	UserHome bool
}

// Preview runs the steps of a session up to its placement on a copy without a placement.
// Nothing is written or reserved. The session may be changed.
func (r *Reconciler) Preview(ctx context.Context, s *v1alpha1.VDISession) (Preview, error) {
	p := &pass{session: s}
	if _, err := r.resolve(ctx, p); err != nil {
		return Preview{}, err
	}
	seat, had := seatOf(s), s.Status.Resources
	s.Status.Placement = nil
	if err := r.readPolicies(ctx, p); err != nil {
		return Preview{}, err
	}
	leaving := p.template != nil && !p.template.DeletionTimestamp.IsZero()
	if c := r.acceptance(s, p.spec, leaving, p.policies); c.Status == metav1.ConditionFalse {
		return Preview{Refused: &c}, nil
	}
	if p.resources = p.spec.Resources.For(s.Spec.Resources); seat != nil {
		p.resources = had
	}
	held, err := r.heldUp(ctx, p)
	if err != nil {
		return Preview{}, err
	}
	governing, _ := policy.Governing(s, p.policies)
	out := Preview{Held: held, Request: r.request(p, governing), UserHome: p.spec.Home.Mode == v1alpha1.HomePerUser}
	out.Request.Seat = seat
	if governing != nil {
		out.Policy = governing.Name
	}
	return out, nil
}

// seatOf returns where a session is placed; nil: nowhere.
func seatOf(s *v1alpha1.VDISession) *placement.Seat {
	at := s.Status.Placement
	if at == nil {
		return nil
	}
	return &placement.Seat{Cluster: at.ClusterUID, Taken: !at.Idle}
}

// heldUp returns the condition Scheduled of a session that no capacity would get placed
// now, or nil. Either way it sets the member that pins the session in the pass.
func (r *Reconciler) heldUp(ctx context.Context, p *pass) (*metav1.Condition, error) {
	s := p.session
	condition := func(reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: v1alpha1.ConditionScheduled, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	n, err := r.acquireHome(ctx, p)
	if err != nil {
		return nil, err
	}
	switch {
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended:
		return condition(v1alpha1.ReasonSuspended, "suspended: set spec.operatingMode to Running, and it goes where the verdicts say"), nil
	case status.TimeOver(s, p.spec):
		return condition(v1alpha1.ReasonTimeExpired, status.ExpiredMessage(s, p.spec)), nil
	case len(status.AwaitedReleases(s)) > 0:
		return condition(v1alpha1.ReasonReleasing, status.ReleasingMessage(s, "")), nil
	case n == goOn:
		return nil, nil
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionScheduled); c != nil && c.Reason == v1alpha1.ReasonTooManyHomes {
		return c, nil
	}
	h := &v1alpha1.VDIHome{}
	if err := r.Client.Get(ctx, home.Key(s), h); err != nil {
		return nil, fmt.Errorf("reading the home: %w", err)
	}
	p.home.pinned = &v1alpha1.ClusterRef{Name: h.Spec.ClusterName, UID: h.Spec.ClusterUID}
	return condition(v1alpha1.ReasonHomeInUse, home.InUse(s, h)), nil
}
