package session

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// A PerUser home has one writer, whatever the member. Its record, the VDIHome, is written
// before the session's status states that the session runs with it, and names the session
// and the run that claimed it. It is released only by a controller that sees the session at
// that run or beyond, and stopped: an older object, or one from between the two writes,
// shows the session before that run. Every write of the record is locked to the version
// that was read.

// homeStep is a pass' state of the session's home.
type homeStep struct {
	// record of a PerUser home as it was read; nil: none yet.
	record *v1alpha1.VDIHome
	// fresh is set if the session requests a new home; movable if the existing one may be
	// created in another member.
	fresh, movable bool
	// foreign is set if another session has the record, which is left unchanged.
	foreign bool
	// pinned is the only member allowed for the session; nil: any.
	pinned *v1alpha1.ClusterRef
}

// acquireHome checks whether the session can have its home, and where that pins it. It
// comes before any reservation: a session that waits for its home reserves no capacity.
// takeHome claims the home, once there is capacity.
func (r *Reconciler) acquireHome(ctx context.Context, p *pass) (next, error) {
	s := p.session
	p.home = homeStep{}
	switch p.spec.Home.Mode {
	case v1alpha1.HomePerSession:
		// A session that was never ready has nothing in its home yet.
		if h := s.Status.Home; h != nil && (s.Status.StartTime != nil || s.Status.Placement != nil) {
			p.home.pinned = &v1alpha1.ClusterRef{Name: h.ClusterName, UID: h.ClusterUID}
		}
		return goOn, nil
	case v1alpha1.HomePerUser:
		return r.acquireUserHome(ctx, p)
	default:
		return goOn, nil
	}
}

// acquireUserHome implements acquireHome for the home that the sessions of a user share.
func (r *Reconciler) acquireUserHome(ctx context.Context, p *pass) (next, error) {
	s := p.session
	h := &v1alpha1.VDIHome{}
	if err := r.Client.Get(ctx, home.Key(s), h); err != nil {
		if apierrors.IsNotFound(err) {
			return goOn, nil
		}
		return done, fmt.Errorf("reading the home: %w", err)
	}
	if message := home.InUse(s, h); message != "" {
		r.unscheduled(p, v1alpha1.ReasonHomeInUse, message)
		p.await(v1alpha1.ReasonHomeInUse)
		return done, nil
	}
	unused := h.Annotations[home.AnnotationUnused] != ""
	p.home = homeStep{record: h, movable: unused && s.Status.StartTime == nil || r.leftBehind(s, h)}
	// A home that was created for this very session is fresh enough.
	p.home.fresh = s.Spec.FreshHome && s.Status.Home == nil && (!unused || h.Status.MountedByUID != s.UID)
	if message := home.TooMany(h, r.Clock.Now(), r.Fleet.Gone); p.home.fresh && message != "" {
		r.unscheduled(p, v1alpha1.ReasonTooManyHomes, message)
		p.await(v1alpha1.ReasonTooManyHomes)
		return done, nil
	}
	if p.home.movable || p.home.fresh {
		return goOn, nil
	}
	return r.pinHome(p, h), nil
}

// skipRun skips a run that the session's home was claimed for and that its status does not
// have, so that the home can be released.
func (r *Reconciler) skipRun(ctx context.Context, p *pass) (next, error) {
	if status.ToRun(p.session) {
		return goOn, nil
	}
	h := &v1alpha1.VDIHome{}
	if err := r.Client.Get(ctx, home.Key(p.session), h); apierrors.IsNotFound(err) {
		return goOn, nil
	} else if err != nil {
		return done, fmt.Errorf("reading the home: %w", err)
	}
	return next(!home.SkipRun(p.session, h, r.Clock.Now())), nil
}

// pinHome pins the session to the member of its home.
func (r *Reconciler) pinHome(p *pass, h *v1alpha1.VDIHome) next {
	p.home.pinned = &v1alpha1.ClusterRef{Name: h.Spec.ClusterName, UID: h.Spec.ClusterUID}
	at := p.session.Status.Placement
	if at == nil || at.ClusterUID == h.Spec.ClusterUID {
		return goOn
	}
	r.unscheduled(p, v1alpha1.ReasonNoRoomToResume, fmt.Sprintf(
		"the session is in %s and its user's home in %s: delete the session and create another", at.ClusterName, h.Spec.ClusterName))
	return done
}

// takeHome claims the session's home durably, and records it in the status that is about to
// be written. It does so for every status in which the desktop is to run and was not in the
// one before.
func (r *Reconciler) takeHome(ctx context.Context, before *v1alpha1.VDISession, p *pass) error {
	at := p.session.Status.Placement
	if at == nil || at.Idle || p.spec == nil || status.ToRun(before) && before.Status.Placement.Epoch == at.Epoch {
		return nil
	}
	s := p.session
	switch p.spec.Home.Mode {
	case v1alpha1.HomePerSession:
		s.Status.Home = &v1alpha1.SessionHome{
			ClusterName: at.ClusterName, ClusterUID: at.ClusterUID, ClaimName: v1alpha1.AssignmentName(s.Name, s.UID),
		}
		return nil
	case v1alpha1.HomePerUser:
		if p.home.foreign {
			return nil
		}
	default:
		s.Status.Home = nil
		return nil
	}
	h := r.homeFor(p)
	if err := home.Store(ctx, r.Client, p.home.record, h, status.Seconds(r.Clock.Now())); err != nil {
		return err
	}
	s.Status.Home = &v1alpha1.SessionHome{
		Name: h.Name, ClusterName: h.Spec.ClusterName, ClusterUID: h.Spec.ClusterUID, ClaimName: h.Spec.ClaimName,
	}
	return nil
}

// homeFor returns the record of the session's home for a run where its status is about to
// place it.
func (r *Reconciler) homeFor(p *pass) *v1alpha1.VDIHome {
	s, now := p.session, status.Seconds(r.Clock.Now())
	refused := false
	if old := p.home.record; old != nil {
		why, _, _ := r.memory.Refusals(s.UID, now.Time)
		_, refused = why[old.Spec.ClusterUID]
	}
	h, left := home.Claim{
		Session: s, Template: p.spec, Record: p.home.record, Fresh: p.home.fresh, Movable: p.home.movable, Refused: refused, Now: now,
	}.Apply()
	if left != nil && p.home.fresh {
		p.record(r, "Normal", v1alpha1.EventFreshHome, "Place", fmt.Sprintf(
			"a fresh home is made in %s; the earlier one stays in %s, as claim %s", s.Status.Placement.ClusterName, left.ClusterName, left.ClaimName))
	}
	return h
}
