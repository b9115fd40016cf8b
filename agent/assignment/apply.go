package assignment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,resources=sessionassignments,verbs=get;list;watch
// +kubebuilder:rbac:groups=vdi.kasm.io,roleName=vdi-agent-sessions,resources=sessionassignments,verbs=create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list
// +kubebuilder:rbac:groups="",roleName=vdi-agent-sessions,resources=pods,verbs=patch;delete

// applier stores assignments in the member's API server.
type applier struct {
	*Options
	secrets secretWriter
	// ordered has, by the assignment's UID, the epoch that this process was the first to
	// store: the hub cannot have placed it elsewhere before. An order that was found
	// stored, or whose answer was lost, is not in it.
	ordered *sync.Map
}

// apply stores an assignment, and returns the answer. It returns nil while an earlier one of that name is being
// removed: its end enqueues the session.
//
// The hub places a refused session elsewhere at once, and the cache may not show a write
// whose answer was lost: an order is refused only if the API server has what was seen, or
// if a higher epoch was seen.
func (s applier) apply(ctx context.Context, a *v1alpha1.SessionAssignment) (*fleetv1.OrderResult, error) {
	existing, err := read(ctx, s.Client, client.ObjectKeyFromObject(a))
	for err == nil {
		var out *fleetv1.OrderResult
		if existing.ResourceVersion == "" {
			out, err = s.create(ctx, a)
		} else {
			out, err = s.revise(ctx, existing, a)
		}
		if err != nil || out == nil || out.GetCode() != fleetv1.ResultCode_RESULT_CODE_REFUSED || out.GetReason() == v1alpha1.RefusedStaleEpoch {
			return out, err
		}
		seen := existing.ResourceVersion
		if existing, err = read(ctx, s.Live, client.ObjectKeyFromObject(a)); meta.IsNoMatchError(err) || err == nil && existing.ResourceVersion == seen {
			return out, nil
		}
	}
	return nil, fmt.Errorf("checking that nothing of it is stored: %w", err)
}

// read reads an assignment. If there is none, it returns an empty one.
func read(ctx context.Context, from client.Reader, key client.ObjectKey) (*v1alpha1.SessionAssignment, error) {
	existing := &v1alpha1.SessionAssignment{}
	err := from.Get(ctx, key, existing)
	if apierrors.IsNotFound(err) {
		return &v1alpha1.SessionAssignment{}, nil
	}
	return existing, err
}

func (s applier) create(ctx context.Context, a *v1alpha1.SessionAssignment) (*fleetv1.OrderResult, error) {
	admitted, err := s.admitted(ctx, a.Namespace)
	if err != nil {
		return nil, err
	}
	if !admitted {
		return notAdmitted(a), nil
	}
	if violations := s.Restrictions.Assignment(&a.Spec); len(violations) > 0 {
		return notAllowed(a, violations), nil
	}
	if reason := s.Capacity.Refuses(a); reason != "" {
		return refused(a, v1alpha1.RefusedNoCapacity, reason), nil
	}
	fresh := a.DeepCopy()
	fresh.Payload = nil // It is for the Secrets alone.
	setMetadata(fresh, a)
	setGeneration(fresh, 1)
	metricWrites.WithLabelValues("create").Inc()
	s.Starts.begin(client.ObjectKeyFromObject(fresh))
	err = s.Client.Create(ctx, fresh)
	if err != nil {
		s.Starts.End(client.ObjectKeyFromObject(fresh))
	}
	switch {
	case err == nil:
		s.ordered.Store(fresh.UID, fresh.Spec.Epoch)
		log.FromContext(ctx).Info(transitionStored, append(transitionValues(a), "runState", string(a.Spec.RunState))...)
		return s.stored(ctx, fresh, a)
	case apierrors.IsAlreadyExists(err):
		// The cache does not show it yet.
		existing := &v1alpha1.SessionAssignment{}
		if err := s.Live.Get(ctx, client.ObjectKeyFromObject(a), existing); err != nil {
			return nil, err
		}
		return s.revise(ctx, existing, a)
	case unknownKind(err):
		return refused(a, v1alpha1.RefusedInvalid,
			"this cluster has no SessionAssignments: its administrator must install the CRDs"), nil
	case apierrors.IsNotFound(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return notAdmitted(a), nil
	case lacksPermission(err):
		return notBound(a), nil
	case denied.Is(err):
		return refused(a, v1alpha1.RefusedInvalid, denied.Explain(err)), nil
	}
	return nil, err
}

// stored acknowledges an order that the API server has, once the Secrets that came with
// it are stored too, and those that it does not name any more are deleted.
func (s applier) stored(ctx context.Context, object, order *v1alpha1.SessionAssignment) (*fleetv1.OrderResult, error) {
	if err := errors.Join(s.correctGeneration(ctx, object), s.secrets.drop(ctx, object)); err != nil {
		return nil, err
	}
	if err := s.secrets.store(ctx, object, order.Payload); err != nil {
		return nil, err
	}
	return stored(order, s.Capacity.Stored(object)), nil
}

// setMetadata sets the finalizer, labels and annotations of an assignment.
func setMetadata(object, order *v1alpha1.SessionAssignment) {
	controllerutil.AddFinalizer(object, v1alpha1.AssignmentFinalizer)
	metav1.SetMetaDataLabel(&object.ObjectMeta, v1alpha1.LabelManagedBy, v1alpha1.ManagedBy)
	metav1.SetMetaDataLabel(&object.ObjectMeta, v1alpha1.LabelSessionUID, string(order.Spec.Session.UID))
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.AnnotationSpecHash, order.Annotations[v1alpha1.AnnotationSpecHash])
	if traceparent := order.Annotations[v1alpha1.AnnotationTraceparent]; traceparent != "" {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.AnnotationTraceparent, traceparent)
	} else {
		delete(object.Annotations, v1alpha1.AnnotationTraceparent) // of an earlier run
	}
}

// revise makes the stored assignment equal the order. The namespace's admission is not
// checked again: Refused would mean that nothing of the session runs.
func (s applier) revise(ctx context.Context, existing, a *v1alpha1.SessionAssignment) (*fleetv1.OrderResult, error) {
	storedEpoch := existing.Spec.Epoch
	switch {
	case existing.Spec.Session.UID != a.Spec.Session.UID:
		return refused(a, v1alpha1.RefusedInvalid,
			fmt.Sprintf("the name is used by the session with UID %s", existing.Spec.Session.UID)), nil
	case a.Spec.Epoch < storedEpoch:
		return staleEpoch(a, storedEpoch), nil
	case !existing.DeletionTimestamp.IsZero():
		// A higher epoch is stored once it is gone; this one is answered with Stopped.
		return nil, nil
	case upToDate(existing, a):
		return s.stored(ctx, existing, a)
	}
	return s.update(ctx, existing, a)
}

// upToDate reports whether an order requires no write. It computes both hashes, so that a
// hub of another version does not make every order a write.
func upToDate(existing, a *v1alpha1.SessionAssignment) bool {
	return existing.Annotations[v1alpha1.AnnotationSpecHash] == a.Annotations[v1alpha1.AnnotationSpecHash] &&
		convert.SpecHash(&existing.Spec) == convert.SpecHash(&a.Spec) &&
		a.Spec.Proof == existing.Spec.Proof
}

func (s applier) update(ctx context.Context, existing, a *v1alpha1.SessionAssignment) (*fleetv1.OrderResult, error) {
	if violations := s.newViolations(existing, a); len(violations) > 0 {
		if a.Spec.Epoch > existing.Spec.Epoch {
			return notAllowed(a, violations), nil
		}
		return nil, fmt.Errorf("the change is not allowed, and the desktop keeps its configuration: %s", restriction.Message(violations))
	}
	revised := existing.DeepCopy()
	revised.Spec = *a.Spec.DeepCopy()
	setMetadata(revised, a)
	setGeneration(revised, nextGeneration(existing, revised))
	metricWrites.WithLabelValues("update").Inc()
	err := s.Client.Update(ctx, revised)
	switch {
	case err == nil:
		if revised.Spec.Epoch > existing.Spec.Epoch {
			s.ordered.Store(revised.UID, revised.Spec.Epoch)
		}
		log.FromContext(ctx).Info(transitionStored, append(transitionValues(a), "runState", string(a.Spec.RunState))...)
		return s.stored(ctx, revised, a)
	case denied.Is(err) && a.Spec.Epoch > existing.Spec.Epoch:
		return refused(a, v1alpha1.RefusedInvalid, denied.Explain(err)), nil
	}
	// A change within an epoch is never refused: that would mean that nothing of it runs.
	return nil, err
}

// newViolations returns why an order for a stored session is not allowed. Within the same
// epoch, violations of the stored spec do not count: a session that ran before the
// administrator set the restriction goes on, and can be suspended and extended.
func (s applier) newViolations(existing, a *v1alpha1.SessionAssignment) []string {
	violations := s.Restrictions.Assignment(&a.Spec)
	if len(violations) == 0 || a.Spec.Epoch > existing.Spec.Epoch {
		return violations
	}
	before := s.Restrictions.Assignment(&existing.Spec)
	return slices.DeleteFunc(violations, func(v string) bool { return slices.Contains(before, v) })
}

func notAllowed(a *v1alpha1.SessionAssignment, violations []string) *fleetv1.OrderResult {
	return refused(a, v1alpha1.RefusedNotAllowed, restriction.Message(violations))
}

// unknownKind reports whether the API server has no CRD of the kind. The error of a
// missing namespace names the namespace instead.
func unknownKind(err error) bool {
	if meta.IsNoMatchError(err) {
		return true
	}
	var status apierrors.APIStatus
	return apierrors.IsNotFound(err) && errors.As(err, &status) &&
		(status.Status().Details == nil || status.Status().Details.Kind != "namespaces")
}

func notAdmitted(a *v1alpha1.SessionAssignment) *fleetv1.OrderResult {
	return refused(a, v1alpha1.RefusedNamespaceNotAdmitted, fmt.Sprintf(
		"namespace %s is not admitted in this cluster: its administrator must admit it (kubectl vdi admit %[1]s)", a.Namespace))
}

// lacksPermission reports whether the authorizer, not admission, denied a request: the
// agent's role is not bound in that namespace.
func lacksPermission(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "cannot create resource")
}

func notBound(a *v1alpha1.SessionAssignment) *fleetv1.OrderResult {
	return refused(a, v1alpha1.RefusedNamespaceNotAdmitted, fmt.Sprintf(
		"namespace %s is labeled in this cluster, but the agent has no permissions there: its administrator must bind the ClusterRole vdi-agent-sessions (kubectl vdi admit %[1]s)",
		a.Namespace))
}

// admitted reports whether a namespace is admitted. Where the cache shows no label, it
// reads from the API server.
func (s applier) admitted(ctx context.Context, name string) (bool, error) {
	if !s.Restrictions.CanBeAdmitted(name) {
		return false, nil
	}
	for _, reader := range []client.Reader{s.Client, s.Live} {
		namespace := &corev1.Namespace{}
		err := reader.Get(ctx, types.NamespacedName{Name: name}, namespace)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading namespace %s: %w", name, err)
		}
		if err == nil && namespace.DeletionTimestamp.IsZero() && namespace.Labels[v1alpha1.LabelAdmitSessions] == "true" {
			return true, nil
		}
	}
	log.FromContext(ctx).V(1).Info("namespace not admitted", "namespace", name)
	return false, nil
}
