package index

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	hubmember "github.com/vdi-fleet/vdi-fleet/hub/member"
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

// Sessions are the sessions in the hub's cache. They must not be changed.
//
// The indexes are those of the informer: the cache's own keep each value twice, for one namespace
// and for all, and its lists copy each session.
type Sessions struct{ indexer toolscache.Indexer }

// Setup indexes the sessions in a cache that has not started. It registers the informer of
// sessions: a manager then waits for that cache before it takes part in the election, so that no
// withdrawal is ever decided from an empty cache.
func Setup(ctx context.Context, c cache.Cache) (Sessions, error) {
	informer, err := c.GetInformer(ctx, &v1alpha1.VDISession{}, cache.BlockUntilSynced(false))
	if err != nil {
		return Sessions{}, fmt.Errorf("watching sessions: %w", err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return Sessions{}, fmt.Errorf("the cache of sessions is a %T, which has no indexes", informer)
	}
	if err := shared.AddIndexers(indexers()); err != nil {
		return Sessions{}, fmt.Errorf("indexing sessions: %w", err)
	}
	return Sessions{shared.GetIndexer()}, nil
}

// Of returns indexed sessions that are in no cache, for tests.
func Of(sessions ...*v1alpha1.VDISession) Sessions {
	indexer := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, indexers())
	for _, s := range sessions {
		_ = indexer.Add(s) // each has a name
	}
	return Sessions{indexer}
}

func indexers() toolscache.Indexers {
	return toolscache.Indexers{
		Assignment: by(func(s *v1alpha1.VDISession) []string {
			name := v1alpha1.AssignmentName(s.Name, s.UID)
			return only(v1alpha1.ReadablePart(name) != s.Name, trim.Bucket(name))
		}),
		Member: by(func(s *v1alpha1.VDISession) []string {
			var names []string
			for _, r := range status.Outstanding(s) {
				names = append(names, r.ClusterName)
			}
			return names
		}),
		Phase: by(func(s *v1alpha1.VDISession) []string {
			return only(slices.Contains(Phases, s.Status.Phase), string(s.Status.Phase))
		}),
		Template: by(func(s *v1alpha1.VDISession) []string {
			return only(s.Status.Placement == nil || status.Retrying(s), s.Spec.Template)
		}),
		Revision: by(func(s *v1alpha1.VDISession) []string {
			return []string{hubtemplate.RevisionKey(s.Spec.Template, s.Status.TemplateRevision)}
		}),
		Home: by(func(s *v1alpha1.VDISession) []string {
			return only(!Scheduled(s), trim.Bucket(home.Key(s).Name))
		}),
	}
}

func by(values func(*v1alpha1.VDISession) []string) toolscache.IndexFunc {
	return func(o any) ([]string, error) { return values(o.(*v1alpha1.VDISession)), nil }
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

// Index adds an index, of sessions that are in a cache before that has started.
func (c Sessions) Index(name string, values func(*v1alpha1.VDISession) []string) error {
	if err := c.indexer.AddIndexers(toolscache.Indexers{name: by(values)}); err != nil {
		return fmt.Errorf("indexing sessions by %s: %w", name, err)
	}
	return nil
}

// All returns all sessions.
func (c Sessions) All() iter.Seq[*v1alpha1.VDISession] { return typed(c.indexer.List()) }

// By returns the sessions that have a value in an index.
func (c Sessions) By(index, value string) iter.Seq[*v1alpha1.VDISession] {
	found, err := c.indexer.ByIndex(index, value)
	if err != nil {
		panic(err) // there is no such index: a mistake in the program
	}
	return typed(found)
}

func typed(objects []any) iter.Seq[*v1alpha1.VDISession] {
	return func(yield func(*v1alpha1.VDISession) bool) {
		for _, o := range objects {
			if !yield(o.(*v1alpha1.VDISession)) {
				return
			}
		}
	}
}

// Get returns a session by its name, or nil if it is not in the cache.
func (c Sessions) Get(key types.NamespacedName) *v1alpha1.VDISession {
	o, found, err := c.indexer.GetByKey(key.String())
	if !found || err != nil {
		return nil
	}
	return o.(*v1alpha1.VDISession)
}

// ByAssignment returns the session that an assignment of a member belongs to, or nil if the hub has
// none.
func (c Sessions) ByAssignment(key types.NamespacedName) *v1alpha1.VDISession {
	readable := types.NamespacedName{Namespace: key.Namespace, Name: v1alpha1.ReadablePart(key.Name)}
	if s := c.Get(readable); s != nil && v1alpha1.AssignmentName(s.Name, s.UID) == key.Name {
		return s
	}
	for s := range c.By(Assignment, trim.Bucket(key.Name)) {
		if s.Namespace == key.Namespace && v1alpha1.AssignmentName(s.Name, s.UID) == key.Name {
			return s
		}
	}
	return nil
}

// HeldIn counts the sessions that are placed in a member, or not confirmed as stopped there.
func (c Sessions) HeldIn(member v1alpha1.ClusterRef) (held hubmember.Held) {
	for s := range c.By(Member, member.Name) {
		switch {
		case s.Status.Placement != nil && s.Status.Placement.ClusterUID == member.UID:
			held.Placed++
		case slices.ContainsFunc(s.Status.Releasing, func(r v1alpha1.Release) bool { return r.ClusterUID == member.UID }):
			held.Releasing++
		}
	}
	return held
}

// RevisionInUse reports whether a session refers to a template's revision.
func (c Sessions) RevisionInUse(template, revision string) bool {
	for range c.By(Revision, hubtemplate.RevisionKey(template, revision)) {
		return true
	}
	return false
}
