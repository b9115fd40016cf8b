package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// A PerUser home has one writer, in whatever members. Its record, the VDIHome,
// is written before the session's status says that the session runs with it,
// and names the session and the run that it was taken for. It is given back
// only by somebody who sees the session at that run or beyond, and stopped: an
// older view, or one from between the two writes, shows the session before that
// run. Every write of the record is locked to the version that was read.

// annotationUnused on a VDIHome: no session was ever ready with it, so nothing
// is in it and it may still be made in another member.
const annotationUnused = "vdi.kasm.io/unused"

// mostLeftBehind are the earlier claims that a record names, the newest.
const mostLeftBehind = 64

// mostFreshHomes is how many earlier homes a user may have left behind and still
// get a fresh one: each is a volume that nobody uses.
const mostFreshHomes = 3

// homeStep is what a pass knows of the session's home.
type homeStep struct {
	// record of a PerUser home as it was read; nil: there is none yet.
	record *v1alpha1.VDIHome
	// fresh: the session asked for a new one. movable: the one that there is
	// may be made in another member.
	fresh, movable bool
	// pinned is the only member that the session may go to; nil: any.
	pinned *v1alpha1.ClusterRef
}

// acquireHome looks whether the session can have its home, and where that pins
// it. It is done before anything is reserved: a session that waits for its home
// holds no room. The home is taken by takeHome, once there is room.
func (r *Reconciler) acquireHome(ctx context.Context, p *pass) (next, error) {
	s := p.session
	p.home = homeStep{}
	switch p.spec.Home.Mode {
	case v1alpha1.HomePerSession:
		// One that was never ready has nothing in its home yet.
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

// acquireUserHome is acquireHome of the home that the sessions of a user share.
func (r *Reconciler) acquireUserHome(ctx context.Context, p *pass) (next, error) {
	s := p.session
	h := &v1alpha1.VDIHome{}
	if err := r.Client.Get(ctx, homeKey(s), h); err != nil {
		if apierrors.IsNotFound(err) {
			return goOn, nil
		}
		return done, fmt.Errorf("reading the home: %w", err)
	}
	if message := homeInUse(s, h); message != "" {
		r.unscheduled(p, v1alpha1.ReasonHomeInUse, message)
		r.await(p, v1alpha1.ReasonHomeInUse, nil)
		return done, nil
	}
	unused := h.Annotations[annotationUnused] != ""
	p.home = homeStep{record: h, movable: unused && s.Status.StartTime == nil || r.leftBehind(s, h)}
	// One that was made for this very session is fresh enough.
	p.home.fresh = s.Spec.FreshHome && s.Status.Home == nil && (!unused || h.Status.MountedByUID != s.UID)
	if left := r.unclaimed(h); p.home.fresh && len(left) >= mostFreshHomes {
		r.unscheduled(p, v1alpha1.ReasonTooManyHomes, tooManyHomes(h, left))
		r.await(p, v1alpha1.ReasonTooManyHomes, nil)
		return done, nil
	}
	if p.home.movable || p.home.fresh {
		return goOn, nil
	}
	return r.pinHome(p, h), nil
}

// pinHome sends the session where its home lies, and nowhere else.
func (r *Reconciler) pinHome(p *pass, h *v1alpha1.VDIHome) next {
	p.home.pinned = &v1alpha1.ClusterRef{Name: h.Spec.ClusterName, UID: h.Spec.ClusterUID}
	at := p.session.Status.Placement
	if at == nil || at.ClusterUID == h.Spec.ClusterUID {
		return goOn
	}
	r.unscheduled(p, v1alpha1.ReasonNoRoomToResume, fmt.Sprintf(
		"the session lies in %s and its user's home in %s: delete the session and create another", at.ClusterName, h.Spec.ClusterName))
	return done
}

func homeKey(s *v1alpha1.VDISession) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.HomeName(s.Namespace, s.Spec.User, s.Spec.Template)}
}

// homeInUse says why a session can't have a home now; empty: it can.
func homeInUse(s *v1alpha1.VDISession, h *v1alpha1.VDIHome) string {
	switch {
	case h.Status.MountedByUID == s.UID:
		return ""
	case h.Status.MountedByUID != "":
		return fmt.Sprintf("the home of %s is in use by session %s (%s/%s): it is free once that one is deleted or suspended, and has stopped",
			s.Spec.User, h.Status.MountedBy, h.Namespace, h.Status.MountedBy)
	case !h.DeletionTimestamp.IsZero():
		return fmt.Sprintf("the record of the home of %s (VDIHome %s) is being deleted: a new one is made once it is gone", s.Spec.User, h.Name)
	}
	return ""
}

// takeHome makes durable that the session has its home, and notes it in the
// status that is about to be written. It does so for every status that says
// that the desktop is to run where the one before did not.
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
	default:
		s.Status.Home = nil
		return nil
	}
	h := r.homeFor(p)
	if err := r.storeHome(ctx, p.home.record, h); err != nil {
		return err
	}
	s.Status.Home = &v1alpha1.SessionHome{
		Name: h.Name, ClusterName: h.Spec.ClusterName, ClusterUID: h.Spec.ClusterUID, ClaimName: h.Spec.ClaimName,
	}
	return nil
}

// homeFor is the record of the session's home as it must be for the session to
// run where its status is about to say.
func (r *Reconciler) homeFor(p *pass) *v1alpha1.VDIHome {
	s, t, at := p.session, p.spec, p.session.Status.Placement
	h := &v1alpha1.VDIHome{}
	old := p.home.record
	if old == nil {
		h.Namespace, h.Name = s.Namespace, homeKey(s).Name
		h.Spec = v1alpha1.HomeSpec{User: s.Spec.User, Template: s.Spec.Template, Generation: 1, ClaimName: h.Name}
		h.Spec.ClusterName, h.Spec.ClusterUID, h.Spec.Size = at.ClusterName, at.ClusterUID, t.Home.Size
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, annotationUnused, "true")
	} else {
		h = old.DeepCopy()
		if p.home.fresh || p.home.movable && h.Spec.ClusterUID != at.ClusterUID {
			r.makeAnew(p, h)
		}
		h.Spec.Size = larger(h.Spec.Size, t.Home.Size)
	}
	h.Spec.RetentionTime = t.Home.RetentionTime
	controllerutil.AddFinalizer(h, v1alpha1.HomeFinalizer)
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.AnnotationRun, status.RunOf(at).String())
	h.Status.MountedBy, h.Status.MountedByUID = s.Name, s.UID
	return h
}

// makeAnew gives a home a new claim where the session goes, and names the one
// that is left behind. A member that refused the session has none.
func (r *Reconciler) makeAnew(p *pass, h *v1alpha1.VDIHome) {
	now, at := status.Seconds(r.Clock.Now()), p.session.Status.Placement
	left := v1alpha1.LeftBehindHome{
		ClaimName: h.Spec.ClaimName, ClusterName: h.Spec.ClusterName, ClusterUID: h.Spec.ClusterUID, Time: now,
	}
	if _, refused := r.refusals.of(p.session.UID, now.Time)[left.ClusterUID]; !refused || !p.home.movable {
		h.Status.LeftBehind = append(h.Status.LeftBehind, left)
		h.Status.LeftBehind = h.Status.LeftBehind[max(0, len(h.Status.LeftBehind)-mostLeftBehind):]
	}
	h.Spec.Generation++
	h.Spec.ClaimName = v1alpha1.HomeClaimName(h.Namespace, h.Spec.User, h.Spec.Template, h.Spec.Generation)
	h.Spec.ClusterName, h.Spec.ClusterUID = at.ClusterName, at.ClusterUID
	metav1.SetMetaDataAnnotation(&h.ObjectMeta, annotationUnused, "true")
	if p.home.fresh {
		p.record(r, "Normal", v1alpha1.EventFreshHome, "Place", fmt.Sprintf(
			"a fresh home is made in %s; the earlier one stays in %s, as claim %s", at.ClusterName, left.ClusterName, left.ClaimName))
	}
}

// storeHome writes the record, if it says anything new. That somebody was
// first is a conflict: what there is then is looked at anew.
func (r *Reconciler) storeHome(ctx context.Context, old, h *v1alpha1.VDIHome) error {
	if old != nil && sameHome(old, h) {
		return nil
	}
	at := status.Seconds(r.Clock.Now())
	h.Status.LastUseTime = &at
	var err error
	if old == nil {
		err = r.Client.Create(ctx, h)
	} else {
		err = r.Client.Update(ctx, h)
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("vdihomes").GroupResource(), h.Name, errors.New("somebody else was first"))
	}
	if err != nil {
		return fmt.Errorf("recording the home: %w", err)
	}
	return nil
}

func sameHome(a, b *v1alpha1.VDIHome) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && equality.Semantic.DeepEqual(a.Status, b.Status) &&
		maps.Equal(a.Annotations, b.Annotations) && slices.Equal(a.Finalizers, b.Finalizers)
}

// giveBack frees a home for others. holder is the session that had it, nil if
// it is gone; the caller has seen that it runs no more.
func giveBack(ctx context.Context, c client.Client, h *v1alpha1.VDIHome, holder *v1alpha1.VDISession, now metav1.Time) error {
	after := h.DeepCopy()
	after.Status.MountedBy, after.Status.MountedByUID, after.Status.LastUseTime = "", "", &now
	delete(after.Annotations, v1alpha1.AnnotationRun)
	if holder == nil || holder.Status.StartTime != nil {
		delete(after.Annotations, annotationUnused)
	}
	controllerutil.RemoveFinalizer(after, v1alpha1.HomeFinalizer)
	if err := c.Update(ctx, after); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("giving back the home: %w", err))
	}
	return nil
}

// takenFor is the run that a home was taken for. Where somebody has edited that
// away, it is the first.
func takenFor(h *v1alpha1.VDIHome) status.Run {
	of, _ := status.ParseRun(h.Annotations[v1alpha1.AnnotationRun])
	return of
}

// reached is the last run that a session's status tells of, or any of its last
// epoch where that is over.
func reached(s *v1alpha1.VDISession) status.Run {
	if p := s.Status.Placement; p != nil && p.Epoch == s.Status.Epoch {
		return status.RunOf(p)
	}
	return status.Run{Epoch: s.Status.Epoch, Number: math.MaxInt64}
}

func larger(a, b *resource.Quantity) *resource.Quantity {
	if a == nil || b != nil && b.Cmp(*a) > 0 {
		return b
	}
	return a
}
