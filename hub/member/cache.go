package member

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
)

// Cache is the scheduler's view of the members, which hub/scheduling/cache documents. It is
// never called under the fleet's lock, which it acquires under its own.
type Cache interface {
	// CountedFrom, Reported, Ended and Restarted end the reservations that the reports of a
	// member count, or that it needs no more; Removed ends all of one that is gone.
	CountedFrom(session types.UID, epoch int64, member types.UID, hash string, sequence uint64)
	Reported(member types.UID, c *placement.Capacity)
	Ended(session types.UID, epoch int64, member types.UID)
	Restarted(member types.UID)
	Removed(member types.UID)
	// Sessions counts the sessions of each of these members according to the hub, and Holds reports
	// whether a session is one of a member's.
	Sessions(members ...types.UID) []placement.SessionCount
	Holds(member, session types.UID) bool
}

// Snapshot returns members as candidates, without their sessions: all members if of is nil, mostly
// in the same order. A snapshot of all is valid until the next of all, and one of some until the next
// of some: since every decision needs the one, and every class of pending sessions the other, each is
// written over the one before, and what a MemberCluster declares is copied for the first only after a
// change. The scheduler's cache calls it with its own lock held.
func (f *Registry) Snapshot(of []types.UID) placement.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	s := placement.Snapshot{Now: now}
	if awaits, wait := f.awaitsReports(now); wait {
		held := awaits // awaits itself would be allocated for each decision
		s.Awaits, s.AwaitsFor = &held, f.recovery.until.Sub(now)
	}
	if of == nil {
		s.Candidates = f.candidates(now)
	} else {
		s.Candidates = f.candidatesOf(of, now)
	}
	return s
}

// SessionsMoved notifies the listeners that members have more or fewer sessions, and that the
// caps of policies count fewer.
func (f *Registry) SessionsMoved(more, fewer []types.UID, policies []string) {
	var changes []Change
	f.mu.Lock()
	for kind, members := range map[ChangeKind][]types.UID{MemberSessions: more, MemberCapacity: fewer} {
		for _, uid := range members {
			if m := f.uids[uid]; m != nil {
				changes = append(changes, m.change(kind))
			}
		}
	}
	f.mu.Unlock()
	for _, name := range policies {
		changes = append(changes, Change{Kind: PolicyCapacity, Policy: name})
	}
	f.notify(changes...)
}

// Cached configures the hub's cache of MemberClusters.
func Cached() cache.ByObject { return cache.ByObject{Transform: trim.Transform(share)} }

// share has the cached members share what most of them have in common, which garbage collections
// would otherwise mark one by one: 1,000 members with 100 templates have 200,000 names and
// revisions. Decoded lists take no more memory than they need.
func share(mc *v1alpha1.MemberCluster) {
	trim.Metadata(mc)
	s := &mc.Status
	s.Conditions = append(make([]metav1.Condition, 0, len(s.Conditions)), s.Conditions...)
	for i := range s.Conditions {
		c := &s.Conditions[i]
		trim.Strings(&c.Type, &c.Reason, &c.Message, (*string)(&c.Status))
	}
	s.Templates = append(make([]v1alpha1.TemplateAvailability, 0, len(s.Templates)), s.Templates...)
	for i := range s.Templates {
		t := &s.Templates[i]
		trim.Strings(&t.Name, &t.Revision, &t.Reason, &t.Message)
	}
	trim.Strings(&s.AgentVersion)
}
