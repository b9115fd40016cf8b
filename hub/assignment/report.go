package assignment

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Report is a connected member's report of a session.
type Report struct {
	Ref v1alpha1.ClusterRef
	// Assignment as reported, or nil.
	Assignment *v1alpha1.SessionAssignment
	// Proven is set if it has the proof that its epoch was assigned to the member.
	Proven bool
}

// Unknown reports whether the member has a later epoch than the session's status.
func (rep *Report) Unknown(s *v1alpha1.VDISession) bool {
	return rep.Assignment != nil && rep.Assignment.Spec.Epoch > s.Status.Epoch
}

// AssignedTwice reports whether the member proves the epoch under which the session is
// placed in another member: the hub assigned it before it was restored from a backup.
func (rep *Report) AssignedTwice(s *v1alpha1.VDISession) bool {
	if rep.Assignment == nil || !rep.Proven || rep.Assignment.Status.State != v1alpha1.AssignmentActive {
		return false
	}
	at := s.Status.Placement
	return at != nil && at.ClusterUID != rep.Ref.UID && at.Epoch == rep.Assignment.Spec.Epoch
}

// Reported returns what a member reports of an assignment, or nil.
func Reported(ctx context.Context, c client.Reader, key types.NamespacedName) (*v1alpha1.SessionAssignment, error) {
	a := &v1alpha1.SessionAssignment{}
	if err := c.Get(ctx, key, a); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading the member's report: %w", err)
	}
	return a, nil
}

// KeyOf returns the namespace and name of a session's assignment in members.
func KeyOf(s *v1alpha1.VDISession) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}
}
