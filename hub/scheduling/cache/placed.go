package cache

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// placedSessions counts which sessions each member has or may still have: placed there, or
// released and not confirmed as stopped.
type placedSessions struct {
	// sessions by member, and the holding of each session.
	sessions map[types.UID]map[types.UID]struct{}
	members  map[types.UID]holding
	// releasing counts, by member, those that were released there.
	releasing map[types.UID]int32
	// changed are the members whose count has changed since the last snapshot of all members.
	changed map[types.UID]struct{}
	// governed counts them by policy, and templates by template and revision.
	governed  governedSessions
	templates map[string]map[string]int32
	// decided are decisions that the hub's cache does not show yet.
	decided map[types.UID]decision
	// replaced are decisions whose write had an unknown outcome when another decision
	// replaced them.
	replaced map[types.UID]decision
}

// holding are the places of a session, its owner, and what it runs.
type holding struct {
	owner    owner
	template placement.TemplateKey
	places   []place
	// releasing are the members among the places from which it is released.
	releasing []types.UID
}

func (h holding) equal(other holding) bool {
	return h.owner == other.owner && h.template == other.template && slices.Equal(h.places, other.places) && slices.Equal(h.releasing, other.releasing)
}

// decision is a decision to place a session in a member under an epoch, by a policy.
type decision struct {
	epoch  int64
	member types.UID
	policy string
	// template that the session runs there.
	template placement.TemplateKey
	// resources that it reserves there.
	resources placement.Resources
	// added reports whether the session was not there before.
	added bool
	// restore is set if the session is already placed there under this epoch and is to
	// resume as this run. It reverts the reservation.
	restore func()
	run     int64
}

func (d decision) place() place { return place{d.member, d.policy} }

// reservedFor reports whether the decision has reserved what a request for this epoch requires.
func (d decision) reservedFor(req *placement.Request, epoch int64) bool {
	return !d.again() && d.epoch == epoch && d.template == req.Template && maps.Equal(d.resources, req.Resources)
}

func (d decision) again() bool { return d.restore != nil }

// shownBy reports whether a session of this epoch and run includes the decision, or a later
// one.
func (d decision) shownBy(epoch, run int64) bool {
	if d.again() && epoch == d.epoch {
		return run >= d.run
	}
	return epoch >= d.epoch
}

func newPlacedSessions() placedSessions {
	return placedSessions{
		sessions:  map[types.UID]map[types.UID]struct{}{},
		members:   map[types.UID]holding{},
		releasing: map[types.UID]int32{},
		changed:   map[types.UID]struct{}{},
		governed:  governedSessions{},
		templates: map[string]map[string]int32{},
		decided:   map[types.UID]decision{},
		replaced:  map[types.UID]decision{},
	}
}

func (p placedSessions) count(member types.UID) int32 { return int32(len(p.sessions[member])) } //nolint:gosec // a member holds no billions

// decide counts a session for a member, and for the policy that placed it there, before any
// cache shows it.
func (p placedSessions) decide(session types.UID, o owner, d decision) {
	if !d.again() {
		held := p.members[session]
		d.added = !slices.Contains(held.places, d.place())
		p.set(session, holding{o, d.template, append(slices.Clone(held.places), d.place()), held.releasing})
	}
	p.decided[session] = d
}

// undo reverts a decision that no cache has shown.
func (p placedSessions) undo(session types.UID) (decision, bool) {
	d, ok := p.decided[session]
	if !ok {
		return d, false
	}
	delete(p.decided, session)
	if d.added {
		h := p.members[session]
		h.places = slices.DeleteFunc(slices.Clone(h.places), func(q place) bool { return q == d.place() })
		p.set(session, h)
	}
	return d, true
}

// observe counts a session as the hub's cache shows it. An object from before the last
// decision does not revert the decision.
func (p placedSessions) observe(session types.UID, epoch, run int64, h holding) moved {
	if d, ok := p.decided[session]; ok {
		switch {
		case d.shownBy(epoch, run):
			delete(p.decided, session)
		case !d.again():
			h.places = append(slices.Clone(h.places), d.place())
		}
	}
	return p.set(session, h)
}

// drop removes a session.
func (p placedSessions) drop(session types.UID) moved {
	delete(p.decided, session)
	delete(p.replaced, session)
	return p.set(session, holding{})
}

// moved is the effect of a change of a session's places: members that gained or lost it,
// and policies with lower counts.
type moved struct {
	gained, lost []types.UID
	uncapped     []string
}

// set sets the places of a session.
func (p placedSessions) set(session types.UID, after holding) moved {
	before := p.members[session]
	if before.equal(after) {
		return moved{}
	}
	for _, member := range before.releasing {
		if p.releasing[member]--; p.releasing[member] == 0 {
			delete(p.releasing, member)
		}
	}
	for _, member := range after.releasing {
		p.releasing[member]++
	}
	m := between(before.places, after.places)
	for _, member := range m.gained {
		if p.sessions[member] == nil {
			p.sessions[member] = map[types.UID]struct{}{}
		}
		p.sessions[member][session] = struct{}{}
		p.changed[member] = struct{}{}
	}
	for _, member := range m.lost {
		if delete(p.sessions[member], session); len(p.sessions[member]) == 0 {
			delete(p.sessions, member)
		}
		p.changed[member] = struct{}{}
	}
	p.governed.add(before.owner, before.places, -1)
	p.governed.add(after.owner, after.places, 1)
	p.countTemplate(before, -1)
	p.countTemplate(after, 1)
	if len(after.places) == 0 {
		delete(p.members, session)
	} else {
		p.members[session] = after
	}
	return m
}

// countTemplate counts a session for its template's revision; by is 1, or -1 to remove it.
func (p placedSessions) countTemplate(h holding, by int32) {
	if len(h.places) == 0 {
		return
	}
	revisions := p.templates[h.template.Name]
	if revisions == nil {
		revisions = map[string]int32{}
		p.templates[h.template.Name] = revisions
	}
	if tally(revisions, h.template.Revision, by); len(revisions) == 0 {
		delete(p.templates, h.template.Name)
	}
}

func between(before, after []place) (m moved) {
	in := func(places []place, member types.UID) bool {
		return slices.ContainsFunc(places, func(p place) bool { return p.member == member })
	}
	for _, p := range after {
		if !in(before, p.member) && !slices.Contains(m.gained, p.member) {
			m.gained = append(m.gained, p.member)
		}
	}
	for _, p := range before {
		if !in(after, p.member) && !slices.Contains(m.lost, p.member) {
			m.lost = append(m.lost, p.member)
		}
		if p.policy != "" && !slices.Contains(after, p) && !slices.Contains(m.uncapped, p.policy) {
			m.uncapped = append(m.uncapped, p.policy)
		}
	}
	return m
}

// holdingOf returns the places that a session has or may still have, from its status.
func holdingOf(s *v1alpha1.VDISession) holding {
	h := holding{
		owner:    owner{s.Spec.User, s.Namespace},
		template: placement.TemplateKey{Name: s.Spec.Template, Revision: s.Status.TemplateRevision},
	}
	if p := s.Status.Placement; p != nil {
		h.places = append(h.places, place{p.ClusterUID, p.Policy})
	}
	for _, r := range s.Status.Releasing {
		if p := s.Status.Placement; p == nil || p.ClusterUID != r.ClusterUID {
			h.releasing = append(h.releasing, r.ClusterUID)
		}
		h.places = append(h.places, place{r.ClusterUID, r.Policy})
	}
	return h
}

// counted sets the counts of a request for the caps of its policy: every session that it
// has placed, with decisions that the hub's cache does not show yet and sessions that are
// being released, but without the request's own. restore must be called after the decision,
// and before the lock is released.
func (p placedSessions) counted(req *placement.Request) (restore func()) {
	own := p.members[req.UID]
	p.governed.add(own.owner, own.places, -1)
	req.Counts = p.governed.of(req.PolicyName, owner{req.User, req.Namespace})
	return func() { p.governed.add(own.owner, own.places, 1) }
}

// countsFor returns a request's counts for its policy's caps, as a copy that outlives the
// lock.
func (p placedSessions) countsFor(req placement.Request) placement.Counts {
	defer p.counted(&req)()
	counts := req.Counts
	if counts.Clusters = maps.Clone(counts.Clusters); counts.Clusters == nil {
		counts.Clusters = map[types.UID]int32{}
	}
	return counts
}

// Observe counts a session as it is on the hub; gone is set for one that no longer exists.
func (c *Cache) Observe(s *v1alpha1.VDISession, gone bool) {
	c.mu.Lock()
	var m moved
	if gone {
		m = c.placed.drop(s.UID)
		for _, uid := range m.lost {
			c.ledger.Release(s.UID, s.Status.Epoch+1, uid)
		}
	} else {
		run := ptr.Deref(s.Status.Placement, v1alpha1.Placement{}).Run
		c.placed.correct(c.ledger, s)
		m = c.placed.observe(s.UID, s.Status.Epoch, run, holdingOf(s))
	}
	c.mu.Unlock()
	c.members.SessionsMoved(m.gained, m.lost, m.uncapped)
}

// correct updates the ledger for a session that the hub's cache shows as placed by a
// reverted decision: its write had an unknown outcome and was stored after all, while a
// second decision was made.
func (p placedSessions) correct(ledger *placement.Ledger, s *v1alpha1.VDISession) {
	first, ok := p.replaced[s.UID]
	if !ok || s.Status.Epoch < first.epoch {
		return
	}
	delete(p.replaced, s.UID)
	at := s.Status.Placement
	if at == nil || at.Epoch != first.epoch || at.ClusterUID != first.member {
		return
	}
	if second, ok := p.decided[s.UID]; ok && second.epoch == first.epoch {
		if second.member == first.member {
			return // its capacity is reserved
		}
		ledger.Release(s.UID, second.epoch, second.member)
	}
	reserve(ledger, s, at.Epoch, 1, at.ClusterUID)
}

// place is a member that has or may still have a session, and the policy that placed it
// there, if any.
type place struct {
	member types.UID
	policy string
}

// owner is the user and namespace of a session. It never changes.
type owner struct{ user, namespace string }

// governedSessions counts, by policy, the sessions that it has placed and that are not
// confirmed as stopped. A session counts once for each policy, and once in each member
// where the policy placed it.
type governedSessions map[string]*governedCount

type governedCount struct {
	total             int32
	users, namespaces map[string]int32
	clusters          map[types.UID]int32
}

// add counts the places of a session; by is 1, or -1 to remove them.
func (g governedSessions) add(o owner, places []place, by int32) {
	for i, p := range places {
		if p.policy == "" || slices.Contains(places[:i], p) {
			continue
		}
		c := g[p.policy]
		if c == nil {
			c = &governedCount{users: map[string]int32{}, namespaces: map[string]int32{}, clusters: map[types.UID]int32{}}
			g[p.policy] = c
		}
		tally(c.clusters, p.member, by)
		if !slices.ContainsFunc(places[:i], func(q place) bool { return q.policy == p.policy }) {
			tally(c.users, o.user, by)
			tally(c.namespaces, o.namespace, by)
			c.total += by
		}
		if len(c.clusters) == 0 {
			delete(g, p.policy)
		}
	}
}

// of returns what a policy's caps count for a session of this owner.
func (g governedSessions) of(policy string, o owner) placement.Counts {
	c := g[policy]
	if c == nil {
		return placement.Counts{}
	}
	return placement.Counts{Total: c.total, User: c.users[o.user], Namespace: c.namespaces[o.namespace], Clusters: c.clusters}
}

func tally[K comparable](m map[K]int32, key K, by int32) {
	if m[key] += by; m[key] == 0 {
		delete(m, key)
	}
}
