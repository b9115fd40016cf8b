package children

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/denied"
)

// Keep creates or repairs the child, or removes it if want is nil.
func (k Kind[T]) Keep(ctx context.Context, s *Set, want T) (T, *observe.Problem, error) {
	var none T
	have, err := k.Find(ctx, s, s.Assignment.Name)
	if err != nil {
		return none, nil, err
	}
	if !isNil(want) {
		return k.Ensure(ctx, s, have, want)
	}
	s.Memory.of(k.Name).refused = refusal{}
	if !k.Owns(s.Assignment, have) {
		return none, nil, nil
	}
	return none, nil, k.Remove(ctx, s, have)
}

// Share creates or repairs a child that other assignments may use, too. It does nothing if want
// is nil.
func (k Kind[T]) Share(ctx context.Context, s *Set, want T) (T, *observe.Problem, error) {
	if isNil(want) {
		return want, nil, nil
	}
	have, err := k.Find(ctx, s, want.GetName())
	if err != nil {
		return have, nil, err
	}
	return k.Ensure(ctx, s, have, want)
}

// Find returns the object of that name from the cache, or the child that was just created, or
// nil. The assignment may not own it.
func (k Kind[T]) Find(ctx context.Context, s *Set, name string) (T, error) {
	have, err := get(ctx, s.reader(k.Name), k, client.ObjectKey{Namespace: s.Assignment.Namespace, Name: name})
	if err != nil {
		return have, err
	}
	if !isNil(have) {
		s.Memory.of(k.Name).created = creation{}
		return have, nil
	}
	if created, left := s.Memory.of(k.Name).createdRecently(s.Now); created != nil && created.GetName() == name {
		s.RequeueWithin(left)
		return created.(T), nil
	}
	return have, nil
}

// Live returns the object of that name from the API server, or nil.
func (k Kind[T]) Live(ctx context.Context, s *Set, name string) (T, error) {
	have, err := get(ctx, s.Live, k, client.ObjectKey{Namespace: s.Assignment.Namespace, Name: name})
	if err != nil {
		return have, fmt.Errorf("from the API server: %w", err)
	}
	return have, nil
}

// Ensure creates or repairs the child. It returns the existing child, the problem that
// prevents it, or an error that a retry may cure.
func (k Kind[T]) Ensure(ctx context.Context, s *Set, have, want T) (T, *observe.Problem, error) {
	problem, wait := s.Memory.of(k.Name).refusedUntil(s.Assignment.Generation, s.Now)
	switch {
	case problem != nil && problem.Reason != api.ReasonConflict:
		// Only denied requests wait: a conflict is checked without a write.
		s.RequeueWithin(wait)
		return have, problem, nil
	case isNil(have):
		return k.create(ctx, s, want)
	default:
		return k.repair(ctx, s, have, want)
	}
}

func (k Kind[T]) create(ctx context.Context, s *Set, want T) (T, *observe.Problem, error) {
	var none T
	if s.Memory.of(k.Name).refused.problem.Reason == api.ReasonConflict {
		// A conflict is checked by a read.
		if have, err := k.Live(ctx, s, want.GetName()); err != nil {
			return none, nil, err
		} else if !isNil(have) {
			return k.repair(ctx, s, have, want)
		}
	}
	err := s.Write(k.Name, "create", func() error { return s.Client.Create(ctx, want) })
	switch {
	case err == nil:
		s.Memory.of(k.Name).created = creation{object: want, at: s.Now}
		s.Memory.of(k.Name).refused = refusal{}
		log.FromContext(ctx).V(1).Info("Created a child", "kind", k.Name, "name", want.GetName())
		return want, nil, nil
	case apierrors.IsAlreadyExists(err):
		have, err := k.Live(ctx, s, want.GetName())
		if err != nil || isNil(have) {
			s.RequeueWithin(ConflictRetry)
			return none, nil, err
		}
		return k.repair(ctx, s, have, want)
	case denied.Is(err):
		problem := problemOf(k.Name, err)
		problem.Invalid = apierrors.IsInvalid(err)
		return none, s.refuse(k.Name, problem), nil
	default:
		return none, nil, fmt.Errorf("creating %s %s: %w", k.Name, want.GetName(), err)
	}
}

// repair repairs drift.
func (k Kind[T]) repair(ctx context.Context, s *Set, have, want T) (T, *observe.Problem, error) {
	var none T
	if owner := k.otherOwner(s.Assignment, have); owner != "" {
		return have, s.refuse(k.Name, observe.Problem{
			Reason:  api.ReasonConflict,
			Message: fmt.Sprintf("There is already a %s %s, %s.", k.Name, have.GetName(), owner),
		}), nil
	}
	aligned := k.aligned(have, want)
	if have.GetDeletionTimestamp() != nil || equality.Semantic.DeepEqual(have, aligned) {
		s.Memory.of(k.Name).refused = refusal{}
		return have, nil, nil
	}
	if wait := s.Memory.of(k.Name).mayRepair(s.Now); wait > 0 {
		s.RequeueWithin(wait)
		return have, nil, nil
	}
	err := s.patch(ctx, k.Name, "repair", have, aligned)
	switch {
	case err == nil:
		s.Memory.of(k.Name).refused = refusal{}
		log.FromContext(ctx).Info("Repaired a child", "kind", k.Name, "name", aligned.GetName())
		return aligned, nil, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		s.RequeueWithin(ConflictRetry)
		return have, nil, nil
	case k.recreate && apierrors.IsInvalid(err):
		log.FromContext(ctx).Info("Recreating a child that can't be repaired", "kind", k.Name, "name", have.GetName(), "reason", err.Error())
		return none, nil, k.Remove(ctx, s, have)
	case denied.Is(err):
		return have, s.refuse(k.Name, problemOf(k.Name, err)), nil
	default:
		return have, nil, fmt.Errorf("repairing %s %s: %w", k.Name, have.GetName(), err)
	}
}
