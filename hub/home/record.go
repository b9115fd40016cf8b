package home

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// AnnotationUnused on a VDIHome means that no session was ever ready with it: it is empty
// and may still be created in another member.
const AnnotationUnused = "vdi.kasm.io/unused"

// maxLeftBehind is how many earlier claims a record names; the newest are kept.
const maxLeftBehind = 64

// maxFreshHomes is how many homes a user may have left behind before a fresh one is
// refused: each is an unused volume.
const maxFreshHomes = 3

// Key returns the name of the record of a session's PerUser home.
func Key(s *v1alpha1.VDISession) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.HomeName(s.Namespace, s.Spec.User, s.Spec.Template)}
}

// InUse returns why a session cannot claim a home now, or "".
func InUse(s *v1alpha1.VDISession, h *v1alpha1.VDIHome) string {
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

// Store writes a record that is new, or differs from the one that was read. If another writer
// was first, it returns a conflict.
func Store(ctx context.Context, c client.Client, read, h *v1alpha1.VDIHome, now metav1.Time) error {
	isNew := h.ResourceVersion == ""
	if !isNew && equality.Semantic.DeepEqual(read, h) {
		return nil
	}
	h.Status.LastUseTime = &now
	var err error
	if isNew {
		err = c.Create(ctx, h)
	} else {
		err = c.Update(ctx, h)
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("vdihomes").GroupResource(), h.Name, errors.New("another writer was first"))
	}
	if err != nil {
		return fmt.Errorf("recording the home: %w", err)
	}
	return nil
}

// Release frees a home for other sessions. holder is the session that claimed it, or nil if
// it is gone. The caller has verified that it is stopped.
func Release(ctx context.Context, c client.Client, h *v1alpha1.VDIHome, holder *v1alpha1.VDISession, now metav1.Time) error {
	after := h.DeepCopy()
	after.Status.MountedBy, after.Status.MountedByUID, after.Status.LastUseTime = "", "", &now
	delete(after.Annotations, v1alpha1.AnnotationRun)
	if holder == nil || holder.Status.StartTime != nil {
		delete(after.Annotations, AnnotationUnused)
	}
	controllerutil.RemoveFinalizer(after, v1alpha1.HomeFinalizer)
	if err := c.Update(ctx, after); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("giving back the home: %w", err))
	}
	return nil
}

// ClaimedRun returns the run that a home was claimed for, or the zero run if the annotation
// was removed.
func ClaimedRun(h *v1alpha1.VDIHome) status.Run {
	of, _ := status.ParseRun(h.Annotations[v1alpha1.AnnotationRun])
	return of
}

// SkipRun makes a session's status skip the run that its home was claimed for, if it still
// lacks that run after ClaimTimeout. The optimistic lock makes a late write of that run
// fail.
func SkipRun(s *v1alpha1.VDISession, h *v1alpha1.VDIHome, now time.Time) (skipped bool) {
	of := ClaimedRun(h)
	if h.Status.MountedByUID != s.UID || !LastRun(s).Before(of) || claimTimeLeft(h, now) > 0 {
		return false
	}
	if at := s.Status.Placement; at != nil && at.Epoch == of.Epoch {
		at.Run = of.Number
	} else {
		s.Status.Epoch = of.Epoch
	}
	return true
}

// claimTimeLeft returns how long the write of the status may still take for which a home
// was claimed, or 0. More than ClaimTimeout means that the clock was set back.
func claimTimeLeft(h *v1alpha1.VDIHome, now time.Time) time.Duration {
	if h.Status.LastUseTime == nil {
		return 0
	}
	left := h.Status.LastUseTime.Add(ClaimTimeout).Sub(now)
	if left > ClaimTimeout {
		return 0
	}
	return max(0, left)
}

// LastRun returns the last run in a session's status, or the last possible run of its epoch
// if that epoch has ended.
func LastRun(s *v1alpha1.VDISession) status.Run {
	if p := s.Status.Placement; p != nil && p.Epoch == s.Status.Epoch {
		return status.RunOf(p)
	}
	return status.Run{Epoch: s.Status.Epoch, Number: math.MaxInt64}
}

// UsesRecord reports whether a session's home is a PerUser home.
func UsesRecord(s *v1alpha1.VDISession) bool { return s.Status.Home != nil && s.Status.Home.Name != "" }

// Stopped reports whether a member reports that nothing runs of an assignment that is not
// to run: its status is of the current spec, and there is no Pod.
func Stopped(reported *v1alpha1.SessionAssignment, hash string) bool {
	pod := meta.FindStatusCondition(reported.Status.Conditions, v1alpha1.ConditionPodReady)
	if pod == nil || pod.Status != metav1.ConditionFalse || reported.Annotations[v1alpha1.AnnotationSpecHash] != hash ||
		reported.Status.ObservedGeneration == 0 || reported.Status.NodeName != "" {
		return false
	}
	switch pod.Reason {
	case v1alpha1.ReasonSuspended, v1alpha1.ReasonTimeExpired:
		return true
	case v1alpha1.ReasonPodTerminating:
		return false
	}
	return reported.Status.Failure != nil
}

// MayStillUse reports whether a released copy of a session may still write to a home. A
// copy left behind in a lost member writes only to the claim that it had there.
func MayStillUse(s *v1alpha1.VDISession, h *v1alpha1.VDIHome) bool {
	return slices.ContainsFunc(s.Status.Releasing, func(o v1alpha1.Release) bool {
		return !o.Superseded || o.ClusterUID == h.Spec.ClusterUID && o.HomeClaimName == h.Spec.ClaimName
	})
}

// TooMany returns why a user gets no fresh home, with the remedy, or "". Earlier homes
// count while they occupy storage: within their retention time, in members that still
// exist.
func TooMany(h *v1alpha1.VDIHome, now time.Time, gone func(member types.UID) bool) string {
	keep, limited := h.Spec.RetentionTime.Value()
	var claims []string
	for _, left := range h.Status.LeftBehind {
		if expired := limited && now.Sub(left.Time.Time) > keep; !expired && !gone(left.ClusterUID) {
			claims = append(claims, left.ClaimName+" in "+left.ClusterName)
		}
	}
	if len(claims) < maxFreshHomes {
		return ""
	}
	message := fmt.Sprintf("no fresh home: %s has left %d homes of template %s behind already, of at most %d (%s); set spec.freshHome to false to run with the current home, "+
		"or have an operator delete unneeded claims and remove them from status.leftBehind of VDIHome %s",
		h.Spec.User, len(claims), h.Spec.Template, maxFreshHomes, strings.Join(claims[:maxFreshHomes], ", "), h.Name)
	if limited {
		message += fmt.Sprintf("; each counts until %s after it was left", keep)
	}
	return message
}
