package index

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	hubtemplate "github.com/vdi-fleet/vdi-fleet/hub/template"
)

// The indexes: by the name of a session's assignment in members, by the names of the members
// that hold it or may still do so, by phase, by template, by template revision
// (hubtemplate.RevisionKey), and by the name of the record of its user's home.
const (
	Assignment = "assignment"
	Member     = "member"
	Phase      = "phase"
	Template   = "template"
	Revision   = "revision"
	Home       = "home"
)

// Setup registers the indexes, and with them the informer of sessions: a manager then
// waits for that cache before it takes part in the election, so that no withdrawal is
// ever decided from an empty cache.
func Setup(ctx context.Context, indexer client.FieldIndexer) error {
	for name, values := range map[string]func(*v1alpha1.VDISession) []string{
		Assignment: func(s *v1alpha1.VDISession) []string {
			return []string{v1alpha1.AssignmentName(s.Name, s.UID)}
		},
		Member: func(s *v1alpha1.VDISession) []string {
			var names []string
			for _, r := range status.Outstanding(s) {
				names = append(names, r.ClusterName)
			}
			return names
		},
		Phase:    func(s *v1alpha1.VDISession) []string { return []string{string(s.Status.Phase)} },
		Template: func(s *v1alpha1.VDISession) []string { return []string{s.Spec.Template} },
		Revision: func(s *v1alpha1.VDISession) []string {
			return []string{hubtemplate.RevisionKey(s.Spec.Template, s.Status.TemplateRevision)}
		},
		Home: func(s *v1alpha1.VDISession) []string { return []string{home.Key(s).Name} },
	} {
		extract := func(o client.Object) []string { return values(o.(*v1alpha1.VDISession)) }
		if err := indexer.IndexField(ctx, &v1alpha1.VDISession{}, name, extract); err != nil {
			return fmt.Errorf("indexing sessions by %s: %w", name, err)
		}
	}
	return nil
}

// ByAssignment returns the session that an assignment of a member belongs to,
// or nil if the hub has none.
func ByAssignment(ctx context.Context, c client.Reader, key types.NamespacedName, o ...client.ListOption) (*v1alpha1.VDISession, error) {
	list := &v1alpha1.VDISessionList{}
	o = append(o, client.InNamespace(key.Namespace), client.MatchingFields{Assignment: key.Name})
	if err := c.List(ctx, list, o...); err != nil {
		return nil, fmt.Errorf("looking up the session of %s: %w", key, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
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
