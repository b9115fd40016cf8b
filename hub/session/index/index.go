package index

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	hubtemplate "github.com/vdi-fleet/vdi-fleet/hub/template"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
)

// The indexes, which a session that runs is in only where it has to be, since each costs memory: by
// the bucket (trim.Bucket) of the name of its assignment in members, if that does not show the
// session's; by the names of the members that hold it or may still do so; by phase, if that is Pending
// or Failed; by template, if it waits for a change of it; by template revision
// (hubtemplate.RevisionKey); and, unless it is scheduled, by the bucket of the name of the record of
// its user's home.
const (
	Assignment = "assignment"
	Member     = "member"
	Phase      = "phase"
	Template   = "template"
	Revision   = "revision"
	Home       = "home"
)

// Phases are those that are indexed.
var Phases = []v1alpha1.SessionPhase{v1alpha1.PhasePending, v1alpha1.PhaseFailed}

// Setup registers the indexes, and with them the informer of sessions: a manager then
// waits for that cache before it takes part in the election, so that no withdrawal is
// ever decided from an empty cache.
func Setup(ctx context.Context, indexer client.FieldIndexer) error {
	for name, values := range map[string]func(*v1alpha1.VDISession) []string{
		Assignment: func(s *v1alpha1.VDISession) []string {
			name := v1alpha1.AssignmentName(s.Name, s.UID)
			return only(v1alpha1.ReadablePart(name) != s.Name, trim.Bucket(name))
		},
		Member: func(s *v1alpha1.VDISession) []string {
			var names []string
			for _, r := range status.Outstanding(s) {
				names = append(names, r.ClusterName)
			}
			return names
		},
		Phase: func(s *v1alpha1.VDISession) []string {
			return only(slices.Contains(Phases, s.Status.Phase), string(s.Status.Phase))
		},
		Template: func(s *v1alpha1.VDISession) []string {
			return only(s.Status.Placement == nil || status.Retrying(s), s.Spec.Template)
		},
		Revision: func(s *v1alpha1.VDISession) []string {
			return []string{hubtemplate.RevisionKey(s.Spec.Template, s.Status.TemplateRevision)}
		},
		Home: func(s *v1alpha1.VDISession) []string {
			if Scheduled(s) {
				return nil
			}
			return []string{trim.Bucket(home.Key(s).Name)}
		},
	} {
		extract := func(o client.Object) []string { return values(o.(*v1alpha1.VDISession)) }
		if err := indexer.IndexField(ctx, &v1alpha1.VDISession{}, name, extract); err != nil {
			return fmt.Errorf("indexing sessions by %s: %w", name, err)
		}
	}
	return nil
}

// only returns a value if it is to be in an index.
func only(indexed bool, value string) []string {
	if indexed {
		return []string{value}
	}
	return nil
}

// Scheduled reports whether a session waits for nothing that placement needs.
func Scheduled(s *v1alpha1.VDISession) bool {
	return meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionScheduled)
}

// ByAssignment returns the session that an assignment of a member belongs to, or nil if the hub has
// none. It is shared with the cache, and must not be changed.
func ByAssignment(ctx context.Context, c client.Reader, key types.NamespacedName) (*v1alpha1.VDISession, error) {
	s := &v1alpha1.VDISession{}
	err := c.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: v1alpha1.ReadablePart(key.Name)}, s, client.UnsafeDisableDeepCopy)
	if err == nil && v1alpha1.AssignmentName(s.Name, s.UID) == key.Name {
		return s, nil
	}
	list := &v1alpha1.VDISessionList{}
	err = c.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{Assignment: trim.Bucket(key.Name)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("looking up the session of %s: %w", key, err)
	}
	for i := range list.Items {
		if s := &list.Items[i]; v1alpha1.AssignmentName(s.Name, s.UID) == key.Name {
			return s, nil
		}
	}
	return nil, nil
}

// Sessions counts sessions in the hub's cache.
type Sessions struct{ client.Reader }

// HeldIn counts the sessions that are placed in a member, or not confirmed as stopped there.
func (c Sessions) HeldIn(ctx context.Context, member v1alpha1.ClusterRef) (held member.Held, err error) {
	list := &v1alpha1.VDISessionList{}
	if err := c.List(ctx, list, client.MatchingFields{Member: member.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return held, fmt.Errorf("counting the sessions of %s: %w", member.Name, err)
	}
	for i := range list.Items {
		s := &list.Items[i].Status
		switch {
		case s.Placement != nil && s.Placement.ClusterUID == member.UID:
			held.Placed++
		case slices.ContainsFunc(s.Releasing, func(r v1alpha1.Release) bool { return r.ClusterUID == member.UID }):
			held.Releasing++
		}
	}
	return held, nil
}

// RevisionInUse reports whether a session refers to a template's revision.
func (c Sessions) RevisionInUse(ctx context.Context, template, revision string) (bool, error) {
	list := &v1alpha1.VDISessionList{}
	err := c.List(ctx, list, client.MatchingFields{Revision: hubtemplate.RevisionKey(template, revision)}, client.Limit(1))
	return len(list.Items) > 0, err
}
