package lifecycle

import (
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// homeStep is the decision of a pass on the session's home. Package home has the rules of its
// record.
type homeStep struct {
	// Claim to a PerUser home.
	home.Claim
	// othersRecord is set if another session has claimed the record, which is not changed.
	othersRecord bool
	// pinned is the only member allowed for the session; nil if any is.
	pinned *v1alpha1.ClusterRef
}

// acquireHome checks whether the session can have its home, and to which member that pins
// it. It precedes any request: a session that waits for its home reserves no capacity.
// claimHome claims the home, once there is capacity.
func (p *pass) acquireHome() next {
	s := p.Session
	p.home = homeStep{}
	switch p.spec.Home.Mode {
	case v1alpha1.HomePerSession:
		// A session that was never ready has nothing in its home yet.
		if h := s.Status.Home; h != nil && (s.Status.StartTime != nil || s.Status.Placement != nil) {
			p.home.pinned = &v1alpha1.ClusterRef{Name: h.ClusterName, UID: h.ClusterUID}
		}
	case v1alpha1.HomePerUser:
		if p.in.Home != nil {
			return acquireUserHome(p, p.in.Home)
		}
	}
	return proceed
}

// acquireUserHome implements acquireHome for the home that the sessions of a user share.
func acquireUserHome(p *pass, h *v1alpha1.VDIHome) next {
	s := p.Session
	if message := home.InUse(s, h); message != "" {
		return p.waitFor(v1alpha1.ReasonHomeInUse, message)
	}
	unused := h.Annotations[home.AnnotationUnused] != ""
	p.home.Record, p.home.Movable = h, unused && s.Status.StartTime == nil || leftBehind(p, h)
	// A home that was created for this very session is fresh enough.
	p.home.Fresh = s.Spec.FreshHome && s.Status.Home == nil && (!unused || h.Status.MountedByUID != s.UID)
	if message := home.TooMany(h, p.in.Now, p.in.gone); p.home.Fresh && message != "" {
		return p.waitFor(v1alpha1.ReasonTooManyHomes, message)
	}
	if p.home.Movable || p.home.Fresh {
		return proceed
	}
	return pinHome(p, h)
}

// leftBehind reports whether the session left a user's home behind, or the home's member
// no longer exists: a new one is created.
func leftBehind(p *pass, h *v1alpha1.VDIHome) bool {
	return p.Session.Status.Placement == nil && (status.SupersededIn(p.Session, h.Spec.ClusterUID) != nil || p.in.gone(h.Spec.ClusterUID))
}

// pinHome pins the session to the member of its home.
func pinHome(p *pass, h *v1alpha1.VDIHome) next {
	p.home.pinned = memberOf(h)
	at := p.Session.Status.Placement
	if at == nil || at.ClusterUID == h.Spec.ClusterUID {
		return proceed
	}
	p.unscheduled(v1alpha1.ReasonNoCapacityToResume, fmt.Sprintf(
		"the session is in %s and its user's home in %s: delete the session and create another", at.ClusterName, h.Spec.ClusterName))
	return done
}

// memberOf returns the member of a user's home.
func memberOf(h *v1alpha1.VDIHome) *v1alpha1.ClusterRef {
	return &v1alpha1.ClusterRef{Name: h.Spec.ClusterName, UID: h.Spec.ClusterUID}
}

// homeForFailover checks whether a session of a lost member may begin with a new home
// and abandon its old one, once an operator has declared the member fenced. The message
// is the reason why not.
func homeForFailover(p *pass) (message string) {
	p.home = homeStep{}
	h := p.in.Home
	if p.spec.Home.Mode != v1alpha1.HomePerUser || h == nil {
		return ""
	}
	if message := home.InUse(p.Session, h); message != "" {
		return message
	}
	p.home.Record, p.home.Movable = h, true
	return ""
}

// skipRun skips a run for which the session's home was claimed but that its status
// never recorded, so that the home can be released.
func skipRun(p *pass) next {
	if status.ToRun(p.Session) || p.in.Home == nil {
		return proceed
	}
	return next(!home.SkipRun(p.Session, p.in.Home, p.in.Now))
}

// keptByHome reports whether the session's home keeps it in its member. Only a home
// with which the session was ready does: any other is still empty.
func (p *pass) keptByHome() bool {
	s, h := p.Session, p.in.Home
	switch {
	case !status.HasHome(p.spec):
		return s.Status.Home != nil
	case s.Status.StartTime != nil:
		return true
	case p.spec.Home.Mode == v1alpha1.HomePerSession || h == nil:
		return false
	}
	return h.Annotations[home.AnnotationUnused] == "" || h.Status.MountedByUID != s.UID
}

// freesHome reports whether the home of a stopped session is to be released: the member
// has the desired assignment, and reports that nothing of it runs.
func freesHome(p *pass, reported *v1alpha1.SessionAssignment) bool {
	s, h := p.in.Session, p.in.Home
	return home.UsesRecord(s) && !status.ToRun(s) && home.Stopped(reported, p.in.Order.Hash) &&
		h != nil && h.Name == s.Status.Home.Name && h.Status.MountedByUID == s.UID &&
		!home.MayStillUse(s, h) && !home.LastRun(s).Before(home.ClaimedRun(h))
}

// claimHome claims the session's home, and records it in the status, whenever the
// desktop is to run and was not, or was under another epoch.
func claimHome(p *pass) {
	s, before := p.Session, p.in.Session
	at := s.Status.Placement
	if at == nil || at.Idle || p.spec == nil || status.ToRun(before) && before.Status.Placement.Epoch == at.Epoch {
		return
	}
	switch p.spec.Home.Mode {
	case v1alpha1.HomePerSession:
		s.Status.Home = &v1alpha1.SessionHome{
			ClusterName: at.ClusterName, ClusterUID: at.ClusterUID, ClaimName: v1alpha1.AssignmentName(s.Name, s.UID),
		}
	case v1alpha1.HomePerUser:
		if p.home.othersRecord {
			return
		}
		p.Home = homeRecord(p)
		s.Status.Home = &v1alpha1.SessionHome{
			Name: p.Home.Name, ClusterName: p.Home.Spec.ClusterName, ClusterUID: p.Home.Spec.ClusterUID, ClaimName: p.Home.Spec.ClaimName,
		}
	default:
		s.Status.Home = nil
	}
}

// homeRecord returns the record of the session's home for a run where its status places it.
func homeRecord(p *pass) *v1alpha1.VDIHome {
	s, c := p.Session, p.home.Claim
	c.Session, c.Template, c.Now = s, p.spec, status.Seconds(p.in.Now)
	if c.Record != nil {
		_, c.Refused = p.in.Known.Refused[c.Record.Spec.ClusterUID]
	}
	h, left := c.Apply()
	if left != nil && c.Fresh {
		p.normal(v1alpha1.EventFreshHome, "Place", fmt.Sprintf(
			"a fresh home is made in %s; the earlier one stays in %s, as claim %s", s.Status.Placement.ClusterName, left.ClusterName, left.ClaimName))
	}
	return h
}
