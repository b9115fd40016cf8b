package cache

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

func TestNothingIsKeptOfSessionsThatAreGone(t *testing.T) {
	x := newFixture(t, member("eu", "eu", 2), member("us", "us", 2))
	req := request("a")
	req.PolicyName, req.Policy = "lab", &v1alpha1.PlacementPolicySpec{}
	x.Place(req, 1)
	x.Place(req, 1) // the outcome of the first write is unknown
	moved := onHub("a", 2, "uid-us")
	moved.Status.Placement.Policy = "lab"
	moved.Status.Releasing = []v1alpha1.Release{{ClusterUID: "uid-eu", Epoch: 1, Policy: "lab"}}
	x.Observe(moved, false)
	x.Expect(x.placed.decided).To(BeEmpty())
	x.Expect(x.Sessions("uid-eu", "uid-us")).To(Equal([]placement.SessionCount{{All: 1, Releasing: 1}, {All: 1}}))
	x.Expect(x.Holds("uid-eu", "uid-a")).To(BeTrue())
	x.Observe(moved, true)
	x.Expect(x.Holds("uid-eu", "uid-a")).To(BeFalse())
	x.snapshot(nil)
	x.Expect(x.placed).To(Equal(newPlacedSessions()))
	x.Expect(x.outstanding("uid-eu") + x.outstanding("uid-us")).To(BeZero())
}

// After any sequence of events, the counts, those in a snapshot too, equal a recount of the places
// that are held.
func TestCountsEqualARecount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCache(member("m1", "eu", 1), member("m2", "eu", 1))
		p := c.placed
		members, policies := rapid.SampledFrom([]types.UID{"uid-m1", "uid-m2", "uid-removed"}), rapid.SampledFrom([]string{"", "a", "b"})
		owners := map[types.UID]owner{"s1": {"ann", "n1"}, "s2": {"ann", "n2"}, "s3": {"bob", "n2"}, "s4": {"bob", "n2"}}
		epochs := map[types.UID]int64{}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			s := rapid.SampledFrom([]types.UID{"s1", "s2", "s3", "s4"}).Draw(t, "session")
			switch rapid.SampledFrom([]string{"decide", "undo", "observe", "drop"}).Draw(t, "step") {
			case "decide":
				p.undo(s)
				p.decide(s, owners[s], decision{epoch: epochs[s] + 1, member: members.Draw(t, "member"), policy: policies.Draw(t, "policy")})
			case "undo":
				p.undo(s)
			case "observe":
				epochs[s] += rapid.Int64Range(0, 1).Draw(t, "later")
				h := holding{owner: owners[s], template: placement.TemplateKey{Name: "t", Revision: rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "revision")}}
				for range rapid.IntRange(0, 3).Draw(t, "places") {
					h.places = append(h.places, place{members.Draw(t, "held by"), policies.Draw(t, "by policy")})
				}
				p.observe(s, epochs[s], 1, h)
			case "drop":
				p.drop(s)
			}
			if rapid.Bool().Draw(t, "a decision follows") {
				for _, candidate := range c.snapshot(nil).Candidates {
					if have, want := candidate.Sessions, p.count(candidate.UID); have != want {
						t.Fatalf("the snapshot shows %d sessions of %s, not %d", have, candidate.UID, want)
					}
				}
			}
			templates := map[string]map[string]int32{}
			for _, h := range p.members {
				if templates[h.template.Name] == nil {
					templates[h.template.Name] = map[string]int32{}
				}
				templates[h.template.Name][h.template.Revision]++
			}
			if diff := cmp.Diff(templates, p.templates); diff != "" {
				t.Fatal(diff)
			}
			if diff := cmp.Diff(recount(p), deref(p.governed), cmp.AllowUnexported(governedCount{})); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func deref(g governedSessions) map[string]governedCount {
	out := map[string]governedCount{}
	for name, c := range g {
		out[name] = *c
	}
	return out
}

func recount(p placedSessions) map[string]governedCount {
	in := map[string]map[types.UID]map[types.UID]bool{} // by policy and session, the members
	for session, h := range p.members {
		for _, at := range h.places {
			if at.policy == "" {
				continue
			}
			if in[at.policy] == nil {
				in[at.policy] = map[types.UID]map[types.UID]bool{}
			}
			if in[at.policy][session] == nil {
				in[at.policy][session] = map[types.UID]bool{}
			}
			in[at.policy][session][at.member] = true
		}
	}
	out := map[string]governedCount{}
	for policy, sessions := range in {
		c := governedCount{users: map[string]int32{}, namespaces: map[string]int32{}, clusters: map[types.UID]int32{}}
		for session, members := range sessions {
			c.total++
			c.users[p.members[session].owner.user]++
			c.namespaces[p.members[session].owner.namespace]++
			for m := range members {
				c.clusters[m]++
			}
		}
		out[policy] = c
	}
	return out
}
