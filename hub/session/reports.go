package session

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// report is what a connected member reports of a session.
type report struct {
	ref v1alpha1.ClusterRef
	// assignment as reported; nil: the member reports nothing of the session.
	assignment *v1alpha1.SessionAssignment
	// proven: it has the proof that its epoch was given to the member.
	proven bool
}

// reportsOf returns what the connected members report of a session that hold it
// according to its status, or that prove that they hold it.
func (r *Reconciler) reportsOf(ctx context.Context, s *v1alpha1.VDISession) ([]report, error) {
	held := sets.New[string]()
	for _, o := range status.Outstanding(s) {
		held.Insert(o.ClusterName)
	}
	var out []report
	for _, member := range sets.List(held.Union(r.claims.of(s.UID))) {
		rep, connected, err := r.reportFrom(ctx, s, member)
		switch {
		case err != nil:
			return nil, err
		case connected && rep != nil && (held.Has(member) || rep.unknown(s) || rep.givenTwice(s)):
			out = append(out, *rep)
		case connected && !held.Has(member):
			r.claims.drop(s.UID, member)
		}
	}
	return out, nil
}

// reportFrom returns a member's report, or nil if what it reports does not count for the
// session.
func (r *Reconciler) reportFrom(ctx context.Context, s *v1alpha1.VDISession, member string) (rep *report, connected bool, err error) {
	ref, known := r.Fleet.RefOf(member)
	if !known {
		return nil, false, nil
	}
	cl, err := r.Members.Get(ctx, multicluster.ClusterName(member))
	if errors.Is(err, multicluster.ErrClusterNotFound) {
		return nil, false, nil // it is away
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading what %s reports: %w", member, err)
	}
	reported, err := reportedOf(ctx, cl.GetClient(), assignmentKey(s))
	if err != nil {
		return nil, false, err
	}
	out := &report{ref: ref, proven: r.Proofs.proves(s, ref.UID, reported)}
	own, reported := ownOf(s, ref.UID, reported, out.proven)
	if own == nil {
		return nil, true, nil
	}
	out.assignment = reported
	return out, true, nil
}

// unknown reports whether the member holds an epoch that the session's status does not
// know yet.
func (rep *report) unknown(s *v1alpha1.VDISession) bool {
	return rep.assignment != nil && rep.assignment.Spec.Epoch > s.Status.Epoch
}

// givenTwice reports whether the member proves the very epoch under which the session is
// placed in another: a hub of before a restore has given it there.
func (rep *report) givenTwice(s *v1alpha1.VDISession) bool {
	if rep.assignment == nil || !rep.proven || rep.assignment.Status.State != v1alpha1.AssignmentActive {
		return false
	}
	at := s.Status.Placement
	return at != nil && at.ClusterUID != rep.ref.UID && at.Epoch == rep.assignment.Spec.Epoch
}

// reportedOf returns what a member reports of an assignment, or nil.
func reportedOf(ctx context.Context, c client.Reader, key types.NamespacedName) (*v1alpha1.SessionAssignment, error) {
	a := &v1alpha1.SessionAssignment{}
	if err := c.Get(ctx, key, a); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("reading what the member reports: %w", err)
	}
	return a, nil
}

// assignmentKey is the namespace and name of a session's assignment in members.
func assignmentKey(s *v1alpha1.VDISession) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: v1alpha1.AssignmentName(s.Name, s.UID)}
}

// claims remembers which members prove that they hold a session although its status
// does not say so. It may be forgotten at any time: the members' reports are compared
// again when they connect.
type claims struct {
	mu sync.Mutex
	by map[types.UID]sets.Set[string]
}

func (c *claims) add(session types.UID, member string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[types.UID]sets.Set[string]{}
	}
	if c.by[session] == nil {
		c.by[session] = sets.New[string]()
	}
	c.by[session].Insert(member)
}

// of returns a copy.
func (c *claims) of(session types.UID) sets.Set[string] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[session].Clone()
}

func (c *claims) drop(session types.UID, member string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[session].Delete(member).Len() == 0 {
		delete(c.by, session)
	}
}

// forget a session that is gone.
func (c *claims) forget(session types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.by, session)
}

// Claimed has the session controller look at a member's proof that it holds a session.
func (r *Reconciler) Claimed(s *v1alpha1.VDISession, member string) {
	r.claims.add(s.UID, member)
	r.Enqueue(client.ObjectKeyFromObject(s))
}

// Enqueue has the session controller look at a session.
func (r *Reconciler) Enqueue(session types.NamespacedName) {
	r.feed.add(ctrl.Request{NamespacedName: session})
}
