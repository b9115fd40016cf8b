package placement

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestExplanations(t *testing.T) {
	short := func(name string, cpu, memory int64) Candidate {
		return with(member(name, 1), func(c *Candidate) { c.Capacity = reporting(Bucket{3, free(cpu, memory).Amounts()}) })
	}
	cordoned := func(name string) Candidate {
		return with(member(name, 1), func(c *Candidate) { c.Scheduling = v1alpha1.SchedulingCordoned })
	}
	for _, tc := range []struct {
		name       string
		request    Request
		candidates []Candidate
	}{
		{"no-members", session("s"), nil},
		{"cordoned-and-short", session("s"), []Candidate{
			short("eu-3", 8000, 1), cordoned("eu-2"), short("eu-4", 8000, 3), cordoned("eu-1"), short("eu-5", 8000, 2)}},
		{"every-kind", session("s"), []Candidate{
			short("eu-1", 500, 32),
			with(member("eu-2", 1), func(c *Candidate) { c.Capacity = nil }),
			with(member("eu-3", 1), func(c *Candidate) { c.Ready = false; c.NotReady = "no agent has connected" }),
			with(member("eu-4", 1), func(c *Candidate) { c.SessionCap = ptr(int32(0)) }),
			with(member("eu-5", 1), func(c *Candidate) { c.Capacity.AdmittedNamespaces = Namespaces{} }),
		}},
		{"home-elsewhere", requestWith(session("s"), func(r *Request) {
			r.Home = &v1alpha1.ClusterRef{Name: "eu-1", UID: "uid-eu-1"}
		}), []Candidate{short("eu-1", 0, 0), member("eu-2", 1), member("eu-3", 1)}},
		{"too-many-kinds", session("s"), func() []Candidate {
			var out []Candidate
			for i := range 12 {
				out = append(out, with(member(fmt.Sprintf("m-%02d", i), 1), func(c *Candidate) {
					c.Taints = []corev1.Taint{{Key: fmt.Sprintf("t%02d", i), Effect: corev1.TaintEffectNoSchedule}}
				}))
			}
			return out
		}()},
		{"placed-least-loaded", session("s"), []Candidate{member("eu-1", 4), cordoned("eu-2"),
			with(member("eu-3", 6), func(c *Candidate) { c.Sessions = 30 })}},
		{"placed-only-one", session("s"), []Candidate{member("eu-1", 4), cordoned("eu-2")}},
		{"placed-with-home", requestWith(session("s"), func(r *Request) {
			r.Home = &v1alpha1.ClusterRef{Name: "eu-1", UID: "uid-eu-1"}
		}), []Candidate{member("eu-1", 1), member("eu-2", 1)}},
		{"placed-preferred", requestWith(session("s"), func(r *Request) {
			r.PreferredRegions = []string{"us"}
			r.Policy = &v1alpha1.PlacementPolicySpec{Strategy: v1alpha1.StrategySpread, PreferredClusters: selecting("tier", "a")}
		}), []Candidate{member("eu-1", 9), with(member("us-1", 1), func(c *Candidate) { c.Region = "us" }),
			with(member("us-2", 1), func(c *Candidate) { c.Region = "us"; c.Labels = nil })}},
		{"policy-overflow", governed(tiers(inRegions("us"), inRegions("eu"))), []Candidate{
			withImageIn(member("eu-1", 1)), with(short("us-1", 500, 32), func(c *Candidate) { c.Region = "us" }),
			with(member("ap-1", 1), func(c *Candidate) { c.Region = "ap" })}},
		{"policy-cap", governed(func(p *v1alpha1.PlacementPolicySpec) { p.SessionCaps.PerUser = ptr(int32(2)) }, func(r *Request) { r.Counts.User = 2 }),
			[]Candidate{member("eu-1", 1), cordoned("eu-2")}},
		{"policy-cluster-caps", governed(func(p *v1alpha1.PlacementPolicySpec) { p.SessionCaps.PerCluster = ptr(int32(2)) }, func(r *Request) {
			r.Counts.Clusters = map[types.UID]int32{"uid-eu-1": 2, "uid-eu-2": 3}
		}), []Candidate{member("eu-1", 1), member("eu-2", 1)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			golden(t, tc.name, describe(Explain(tc.request, tc.candidates, NewLedger())))
		})
	}
}

func withImageIn(c Candidate) Candidate {
	return with(c, func(c *Candidate) { withImage(1, c.Capacity) })
}

// A change of a pending session's condition is an API write: Pods that start and end
// on full members must not change its message.
func TestMessageIsStable(t *testing.T) {
	message := func(memory int64) string {
		c := with(member("m", 1), func(c *Candidate) {
			c.Capacity = reporting(Bucket{1, Resources{corev1.ResourceCPU: 8000, corev1.ResourceMemory: memory, corev1.ResourcePods: 10}.Amounts()})
		})
		return Place(session("s"), []Candidate{c}, NewLedger()).Message
	}
	if a, b := message(2*gi+128<<20), message(2*gi+700<<20); a != b {
		t.Errorf("the message changed with nothing that matters:\n%s\n%s", a, b)
	}
}
