package member

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// place is a member that holds a session or may still do so, and the policy by
// which it was placed there; empty: none.
type place struct {
	member types.UID
	policy string
}

// owner is who has a session. It never changes.
type owner struct{ user, namespace string }

// governedSessions counts, by policy, the sessions that it has placed and that
// are not confirmed stopped. A session counts once for each policy, and once in
// each member that it has been placed in by it.
type governedSessions map[string]*governedCount

type governedCount struct {
	total             int32
	users, namespaces map[string]int32
	clusters          map[types.UID]int32
}

// add counts the places of a session; by is 1, or -1 to count them no more.
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

// of is what a policy's caps count for a session of this owner.
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
