package retention

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

// +kubebuilder:rbac:groups="",roleName=vdi-agent-sessions,resources=persistentvolumeclaims,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,roleName=vdi-agent-sessions,resources=events,verbs=create;patch

var homesDeleted = metrics.NewCounter("vdi_agent_homes_deleted_total",
	"Homes that were deleted after their retention time.")

// Homes returns the reconciler of the claims that have a retention time.
func Homes(options Options) *Reconciler {
	return &Reconciler{Options: options, kind: kind{
		name:      "retention",
		empty:     func() client.Object { return &corev1.PersistentVolumeClaim{} },
		keptUntil: retentionEnd,
		inUse:     claimed,
		// A session that uses a claim normally removes the annotation, which enqueues it.
		recheck:  maxRequeue,
		wait:     options.OverdueFor,
		describe: func(client.Object) string { return "a home whose retention has ended" },
		deleted:  options.homeDeleted,
	}}
}

// retentionEnd returns when the retention of a claim ends, and false if it is used, kept for
// ever, or its annotations can't be read. A last use before the claim's creation, by a clock
// that was not set yet, counts as the creation.
func retentionEnd(claim client.Object) (time.Time, bool) {
	lastUse, err := time.Parse(time.RFC3339, claim.GetAnnotations()[api.AnnotationLastUse])
	if err != nil {
		return time.Time{}, false
	}
	if created := claim.GetCreationTimestamp().Time; created.After(lastUse) {
		lastUse = created
	}
	keep, ok := api.Duration(claim.GetAnnotations()[api.AnnotationRetention]).Value()
	return lastUse.Add(keep), ok
}

// claimed reports whether an assignment names the claim.
func claimed(ctx context.Context, from client.Reader, claim client.Object) (bool, error) {
	var all api.SessionAssignmentList
	if err := from.List(ctx, &all, client.InNamespace(claim.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing the assignments that could use claim %s: %w", claim.GetName(), err)
	}
	return slices.ContainsFunc(all.Items, func(a api.SessionAssignment) bool {
		return a.Spec.Desktop.Home.ClaimName == claim.GetName()
	}), nil
}

func (o Options) homeDeleted(ctx context.Context, claim client.Object) {
	homesDeleted.Inc()
	lastUse, keep := claim.GetAnnotations()[api.AnnotationLastUse], claim.GetAnnotations()[api.AnnotationRetention]
	log.FromContext(ctx).Info("Deleted a home after its retention time",
		"lastUse", lastUse, "retention", keep)
	o.Recorder.Eventf(claim, nil, corev1.EventTypeNormal, api.EventHomeDeleted, "Delete",
		"The home was not used since %s, and its retention time is %s.", lastUse, keep)
}
