package session

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// soon is when to look again after somebody else was quicker.
const soon = 200 * time.Millisecond

// kind of a child, as logs, metrics and memory name it.
type kind string

const (
	kindHome    kind = "PersistentVolumeClaim"
	kindPod     kind = "Pod"
	kindService kind = "Service"
	kindIngress kind = "Ingress"
	kindRoute   kind = "HTTPRoute"
	kindConfig  kind = "ConfigMap"
	kindPolicy  kind = "NetworkPolicy"
	kindBudget  kind = "PodDisruptionBudget"
	// kindSize is the size of the home: that it can't grow is no reason not to use
	// it.
	kindSize kind = "PersistentVolumeClaimSize"
)

// childKind is how children of one kind are read and put right.
type childKind[T client.Object] struct {
	kind  kind
	empty func() T
	// stranger says whose the object is if it is not the assignment's, and ""
	// if it is.
	stranger func(*api.SessionAssignment, T) string
	// align makes an object say what was rendered, and leaves alone what
	// others have added.
	align func(have, want T)
	// expendable children hold nothing: one that can't be put right, since
	// somebody made it immutable, is made anew.
	expendable bool
}

// keep makes the child be as rendered, or not be where nothing was rendered.
func keep[T client.Object](ctx context.Context, r *Reconciler, p *pass, k childKind[T], want T) (T, *observe.Problem, error) {
	var none T
	have, err := find(ctx, r, p, k, p.assignment.Name)
	if err != nil {
		return none, nil, err
	}
	if isNil(want) {
		return none, nil, discard(ctx, r, p, k, have)
	}
	return ensure(ctx, r, p, k, have, want)
}

// discard removes a child that is not wanted any more.
func discard[T client.Object](ctx context.Context, r *Reconciler, p *pass, k childKind[T], have T) error {
	delete(p.memory.refused, k.kind)
	if isNil(have) || k.stranger(p.assignment, have) != "" {
		return nil
	}
	return r.remove(ctx, p, k.kind, have)
}

// find is the child as the cache has it, or as it was just created; nil if
// there is none that we know of.
func find[T client.Object](ctx context.Context, r *Reconciler, p *pass, k childKind[T], name string) (T, error) {
	var none T
	have := k.empty()
	err := r.from(k.kind).Get(ctx, client.ObjectKey{Namespace: p.assignment.Namespace, Name: name}, have)
	if err == nil {
		delete(p.memory.made, k.kind)
		return have, nil
	}
	if !apierrors.IsNotFound(err) {
		return none, fmt.Errorf("reading %s %s: %w", k.kind, name, err)
	}
	if made, left := p.memory.madeRecently(k.kind, p.now); made != nil && made.GetName() == name {
		p.again(left)
		return made.(T), nil
	}
	return none, nil
}

// ensure makes the child be as rendered. It returns the child as the member
// has it, or the problem that keeps it from being so, or an error where
// another try may help.
func ensure[T client.Object](ctx context.Context, r *Reconciler, p *pass, k childKind[T], have, want T) (T, *observe.Problem, error) {
	problem, wait := p.memory.refusedUntil(k.kind, p.assignment.Generation, p.now)
	switch {
	case problem != nil && problem.Reason != api.ReasonConflict:
		// To see whether a name is still taken, or the object has been made
		// ours, takes no write: only what was refused waits.
		p.again(wait)
		return have, problem, nil
	case isNil(have):
		return create(ctx, r, p, k, want)
	default:
		return repair(ctx, r, p, k, have, want)
	}
}

func create[T client.Object](ctx context.Context, r *Reconciler, p *pass, k childKind[T], want T) (T, *observe.Problem, error) {
	var none T
	if p.memory.refused[k.kind].problem.Reason == api.ReasonConflict {
		// A name that was taken is asked for by a read, which disturbs no one.
		if have, err := live(ctx, r, k, want); err != nil {
			return none, nil, err
		} else if !isNil(have) {
			return repair(ctx, r, p, k, have, want)
		}
	}
	writes.WithLabelValues(string(k.kind), "create").Inc()
	began := r.Clock.Now()
	err := r.Client.Create(ctx, want)
	r.traceApply(p, k.kind, "create", began, err)
	switch {
	case err == nil:
		p.memory.made[k.kind] = making{object: want, at: p.now}
		delete(p.memory.refused, k.kind)
		log.FromContext(ctx).V(1).Info("Created a child", "kind", k.kind, "name", want.GetName())
		return want, nil, nil
	case apierrors.IsAlreadyExists(err):
		have, err := live(ctx, r, k, want)
		if err != nil || isNil(have) {
			p.again(soon)
			return none, nil, err
		}
		return repair(ctx, r, p, k, have, want)
	case denied.Is(err):
		problem := problemOf(k.kind, err)
		problem.Invalid = apierrors.IsInvalid(err)
		return none, r.refused(p, k.kind, problem), nil
	default:
		return none, nil, fmt.Errorf("creating %s %s: %w", k.kind, want.GetName(), err)
	}
}

// repair puts back what somebody changed of what we rendered.
func repair[T client.Object](ctx context.Context, r *Reconciler, p *pass, k childKind[T], have, want T) (T, *observe.Problem, error) {
	var none T
	if owner := k.stranger(p.assignment, have); owner != "" {
		return have, r.refused(p, k.kind, observe.Problem{
			Reason:  api.ReasonConflict,
			Message: fmt.Sprintf("There is a %s %s already, %s.", k.kind, have.GetName(), owner),
		}), nil
	}
	right := have.DeepCopyObject().(T)
	k.align(right, want)
	if have.GetDeletionTimestamp() != nil || equality.Semantic.DeepEqual(have, right) {
		delete(p.memory.refused, k.kind)
		return have, nil, nil
	}
	if wait := p.memory.mayRepair(k.kind, p.now); wait > 0 {
		p.again(wait)
		return have, nil, nil
	}
	writes.WithLabelValues(string(k.kind), "repair").Inc()
	began := r.Clock.Now()
	err := r.Client.Patch(ctx, right, client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{}))
	r.traceApply(p, k.kind, "repair", began, err)
	switch {
	case err == nil:
		delete(p.memory.refused, k.kind)
		log.FromContext(ctx).Info("Repaired a child", "kind", k.kind, "name", right.GetName())
		return right, nil, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		p.again(soon)
		return have, nil, nil
	case k.expendable && apierrors.IsInvalid(err):
		log.FromContext(ctx).Info("Making a child anew that can't be repaired", "kind", k.kind, "name", have.GetName(), "reason", err.Error())
		return none, nil, r.remove(ctx, p, k.kind, have)
	case denied.Is(err):
		return have, r.refused(p, k.kind, problemOf(k.kind, err)), nil
	default:
		return have, nil, fmt.Errorf("repairing %s %s: %w", k.kind, have.GetName(), err)
	}
}

// remove asks for an object to go, with the grace that is its own. It asks
// once, and never for another object of the same name. The API server deletes a Pod
// that has no node at once, even while the scheduler binds it and its kubelet starts
// it: such a Pod is removed as it was seen.
func (r *Reconciler) remove(ctx context.Context, p *pass, k kind, o client.Object) error {
	if pod, ok := o.(*corev1.Pod); ok && pod.Spec.NodeName == "" {
		return r.removeAsSeen(ctx, p, k, o)
	}
	return r.removeIf(ctx, p, k, o, client.Preconditions{UID: ptr.To(o.GetUID())})
}

// removeAsSeen removes an object if it still is as the cache shows it; else it
// is looked at again.
func (r *Reconciler) removeAsSeen(ctx context.Context, p *pass, k kind, o client.Object) error {
	return r.removeIf(ctx, p, k, o, client.Preconditions{UID: ptr.To(o.GetUID()), ResourceVersion: ptr.To(o.GetResourceVersion())})
}

func (r *Reconciler) removeIf(ctx context.Context, p *pass, k kind, o client.Object, as client.Preconditions) error {
	asked, known := p.memory.removed[o.GetUID()]
	if o.GetDeletionTimestamp() != nil || known && p.now.Sub(asked) < trustTime {
		p.again(trustTime)
		return nil
	}
	writes.WithLabelValues(string(k), "delete").Inc()
	began := r.Clock.Now()
	err := r.Client.Delete(ctx, o, as)
	r.traceApply(p, k, "delete", began, err)
	switch {
	case apierrors.IsConflict(err) && as.ResourceVersion != nil:
		p.again(soon)
		return nil
	case denied.Is(err) && !apierrors.IsNotFound(err):
		r.stays(ctx, p, k, fmt.Errorf("deleting %s %s: %w", k, o.GetName(), err))
		return nil
	case err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
		return fmt.Errorf("deleting %s %s: %w", k, o.GetName(), err)
	}
	p.memory.removed[o.GetUID()] = p.now
	delete(p.memory.made, k)
	p.again(trustTime)
	log.FromContext(ctx).V(1).Info("Asked a child to go", "kind", k, "name", o.GetName())
	return nil
}

// stays notes that the API server denies a removal, which is tried again with backoff.
func (r *Reconciler) stays(ctx context.Context, p *pass, k kind, err error) {
	log.FromContext(ctx).Info("The API server denies a removal", "kind", k, "reason", err.Error())
	p.found.Denied = denied.Explain(err)
	r.refused(p, k, observe.Problem{Reason: api.ReasonApplyFailed, Message: p.found.Denied})
}

func (r *Reconciler) refused(p *pass, k kind, problem observe.Problem) *observe.Problem {
	rejections.WithLabelValues(string(k), problem.Reason).Inc()
	out, wait := p.memory.refuse(k, p.assignment.Generation, problem, p.now)
	p.again(wait)
	return out
}

// live is the object of that name in the API server, or nil.
func live[T client.Object](ctx context.Context, r *Reconciler, k childKind[T], want T) (T, error) {
	var none T
	have := k.empty()
	err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(want), have)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	if err != nil {
		return none, fmt.Errorf("reading %s %s from the API server: %w", k.kind, want.GetName(), err)
	}
	return have, nil
}

func isNil[T client.Object](o T) bool {
	var none T
	return client.Object(o) == client.Object(none)
}
