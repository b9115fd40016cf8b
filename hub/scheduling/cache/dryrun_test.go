package cache

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/dump"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// decides returns all state that decisions depend on.
func (c *Cache) decides() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return dump.ForHash(c.ledger) + dump.ForHash(c.placed)
}

// drawCache returns the cache of a fleet with some sessions.
func drawCache(t *rapid.T) *Cache {
	var of []placement.Candidate
	for i := range rapid.IntRange(1, 4).Draw(t, "members") {
		m := member(fmt.Sprint("m", i), rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region"), rapid.Int32Range(0, 8).Draw(t, "nodes"))
		if rapid.IntRange(0, 3).Draw(t, "capped") == 0 {
			m.SessionCap = ptr.To(rapid.Int32Range(0, 8).Draw(t, "cap"))
		}
		m.HeadroomPercent = rapid.SampledFrom([]int32{0, 0, 20}).Draw(t, "headroom")
		m.Ready = rapid.IntRange(0, 5).Draw(t, "ready") > 0
		of = append(of, m)
	}
	c := newCache(of...)
	for i := range rapid.IntRange(0, 8).Draw(t, "earlier") {
		req := drawRequest(t, fmt.Sprint("earlier-", i))
		d := c.Place(req, 1)
		if d.Placed && rapid.Bool().Draw(t, "shown") {
			c.Observe(onHub(req.Name, 1, d.Cluster.UID), false)
		}
	}
	return c
}

func drawRequest(t *rapid.T, name string) placement.Request {
	req := request(name)
	req.User = rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user")
	req.Resources = placement.Resources{"cpu": rapid.SampledFrom([]int64{250, 500, 1000}).Draw(t, "cpu")}
	if rapid.Bool().Draw(t, "governed") {
		req.PolicyName, req.Policy = "home", &v1alpha1.PlacementPolicySpec{
			Strategy: v1alpha1.StrategyBinPack, Overflow: []v1alpha1.OverflowTier{{Regions: []string{"eu"}}, {}},
		}
		most := func(what string) *int32 {
			if rapid.Bool().Draw(t, what) {
				return nil
			}
			return ptr.To(rapid.Int32Range(0, 6).Draw(t, "most "+what))
		}
		req.Policy.SessionCaps = v1alpha1.SessionCaps{Total: most("total"), PerUser: most("user"), PerCluster: most("cluster")}
	}
	return req
}

func TestAReviewChangesNothingAndPredictsThePlacement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, req := drawCache(t), drawRequest(t, "request")
		count := rapid.Int32Range(1, 12).Draw(t, "count")
		c.snapshot(nil) // which is what keeps its counts
		before := c.decides()
		review := c.Review(t.Context(), DryRun{Request: req, Count: count})
		if c.decides() != before {
			t.Fatalf("what decisions are made from has changed:\n%s\n%s", before, c.decides())
		}

		sessions, placed := map[types.UID]int32{}, int32(0)
		for n := int32(1); n <= count; n++ {
			r := req
			if n > 1 {
				r.UID = types.UID(fmt.Sprintf("%s/%d", req.UID, n))
			}
			if d := c.Place(r, 1); d.Placed {
				placed++
				sessions[d.Cluster.UID]++
				if n == 1 && (review.Clusters[0].ClusterUID != d.Cluster.UID || review.Waiting == 0 && review.Message != d.Message) {
					t.Fatalf("it was placed by %q, and the review had %q, with %v first", d.Message, review.Message, review.Clusters[0])
				}
			} else if review.Waiting == 0 {
				t.Fatalf("session %d found no capacity and the review placed all", n)
			}
		}
		for _, v := range review.Clusters {
			if v.Sessions != sessions[v.ClusterUID] {
				t.Fatalf("%v were placed, and the review had %d in %s", sessions, v.Sessions, v.ClusterUID)
			}
		}
		if review.Placed != placed || review.Waiting != count-placed {
			t.Fatalf("%d were placed; the review had %d placed and %d pending", placed, review.Placed, review.Waiting)
		}
	})
}
