package placement

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestExplanationsOfGrowth(t *testing.T) {
	home := tiers(inRegions("eu"), inRegions("us"))
	group := func(name string, g NodeGroup) Candidate {
		return with(growing(name, "eu", 0, 0, 0), func(c *Candidate) {
			g.Name = "desktops"
			c.Capacity.NodeGroups = []NodeGroup{g}
		})
	}
	full := NodeGroup{Nodes: 9, Provisioning: 1, MaxNodes: 10, State: v1alpha1.NodeGroupFull}
	exhausted := NodeGroup{
		State: v1alpha1.NodeGroupExhausted, Reason: "InsufficientCapacity", Message: "Quota 'CPUS' exceeded",
		RetryTime: time.Date(2026, 3, 1, 10, 12, 0, 0, time.FixedZone("CET", 3600)),
	}
	cordoned := with(member("us", 1), func(c *Candidate) { c.Scheduling = v1alpha1.SchedulingCordoned })
	for _, tc := range []struct {
		name       string
		request    Request
		candidates []Candidate
	}{
		{"growth-placed", session("s"), []Candidate{growing("eu", "eu", 0, 0, 26)}},
		{"growth-provisioning", governed(home), []Candidate{growing("eu", "eu", 0, 1, 5), cordoned}},
		{"growth-at-home", governed(home), []Candidate{growing("eu-west", "eu", 0, 0, 26), growing("us-east", "us", 3, 2, 1)}},
		{"growth-preferred", requestWith(session("s"), func(r *Request) { r.PreferredRegions = []string{"eu"} }),
			[]Candidate{growing("eu-west", "eu", 0, 0, 26), with(member("us", 1), func(c *Candidate) { c.Region = "us" })}},
		{"growth-full", session("s"), []Candidate{group("eu-1", full), group("eu-2", full), cordoned}},
		{"growth-exhausted", session("s"), []Candidate{group("eu-1", exhausted), group("eu-2", NodeGroup{State: v1alpha1.NodeGroupUnknown, Reason: "ShapeUnknown"})}},
		{"growth-too-small", requestWith(session("s"), func(r *Request) { r.Resources[corev1.ResourceCPU] = 9000 }), []Candidate{growing("eu", "eu", 0, 0, 9)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			golden(t, tc.name, describe(Explain(tc.request, tc.candidates, NewLedger())))
		})
	}
}

// The message of a session that waits for a node says which preference ranks before a free slot.
func TestWhyAFreeSlotIsNotUsed(t *testing.T) {
	eu, us := growing("eu-west", "eu", 0, 0, 1), growing("us-east", "us", 1, 0, 0)
	soft := with(us, func(c *Candidate) {
		c.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectPreferNoSchedule}}
	})
	gold := with(eu, func(c *Candidate) { c.Labels = map[string]string{"tier": "gold"} })
	for _, tc := range []struct {
		name    string
		request Request
		members []Candidate
		want    string
	}{
		{"the session's region", requestWith(session("s"), func(r *Request) { r.PreferredRegions = []string{"eu"} }), []Candidate{eu, us},
			"us-east in us has a free slot, but the session prefers region eu"},
		{"a tier", governed(tiers(inRegions("eu"), v1alpha1.OverflowTier{})), []Candidate{eu, us}, "us-east in us has a free slot, but is in tier 2 of policy lab"},
		{"the policy's region", governed(func(p *v1alpha1.PlacementPolicySpec) { p.PreferredRegions = []string{"eu"} }), []Candidate{eu, us},
			"us-east in us has a free slot, but policy lab prefers region eu"},
		{"the policy's clusters", governed(func(p *v1alpha1.PlacementPolicySpec) { p.PreferredClusters = selecting("tier", "gold") }), []Candidate{gold, us},
			"us-east in us has a free slot, but is not among the preferredClusters of policy lab"},
		{"a soft taint", session("s"), []Candidate{eu, soft}, "us-east in us has a free slot, but has a PreferNoSchedule taint that is not tolerated"},
		{"the best of those with a free slot is named", governed(tiers(inRegions("eu"), inRegions("ap"), inRegions("us"))),
			[]Candidate{us, eu, with(member("ap", 1), func(c *Candidate) { c.Region = "ap" })}, "ap has a free slot, but is in tier 2 of policy lab"},
		{"one that is not admitted is not named", governed(tiers(inRegions("eu"))), []Candidate{eu, us}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := Place(tc.request, tc.members, NewLedger())
			want := "; " + tc.want
			if tc.want == "" {
				want = "that fits"
			}
			if d.Reason != v1alpha1.ReasonPlacedOnNewNode || d.NodeGroup != "desktops" || d.ProvisioningTime != 95*time.Second || !strings.HasSuffix(d.Message, want) {
				t.Errorf("got %s (%s): %s\nwant it to end with %s", d.Reason, d.NodeGroup, d.Message, want)
			}
		})
	}
}

// Of several groups the fastest is named that the policy permits and that has a slot of the kind.
func TestTheFastestGroupIsNamed(t *testing.T) {
	m := with(growing("eu", "eu", 0, 0, 3), func(c *Candidate) {
		addGrowth(c.Capacity, NodeGroup{Name: "all-are-ready", Nodes: 9, ProvisioningTime: time.Second})
		addGrowth(c.Capacity, NodeGroup{Name: "a-slow-one", Provisioning: 4, Growable: 4, ProvisioningTime: 20 * time.Minute})
		addGrowth(c.Capacity, NodeGroup{Name: "fast", Growable: 1, ProvisioningTime: 40 * time.Second})
	})
	d := Explain(session("s"), []Candidate{m}, NewLedger())
	if d.Kind != Growable || d.NodeGroup != "fast" || d.ProvisioningTime != 40*time.Second || !strings.Contains(d.Message, "node group fast can add 1 node (usually 40 s)") {
		t.Errorf("got %s of %s: %s", d.Kind, d.NodeGroup, d.Message)
	}
	if got, want := d.Verdicts[0].Message, "no free slot, 32 on 4 nodes that can be added (usually 40 s)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	slow := requestWith(session("s"), func(r *Request) { r.Policy = &v1alpha1.PlacementPolicySpec{MaxProvisioningTime: "1h"} })
	if d := Place(slow, []Candidate{m}, NewLedger()); d.Kind != Provisioning || d.NodeGroup != "a-slow-one" {
		t.Errorf("got %s of %s: %s", d.Kind, d.NodeGroup, d.Message)
	}
}

// A change of a pending session's condition is an API write: the text changes with the state of the
// group only.
func TestTheMessageOfAGroupIsStable(t *testing.T) {
	message := func(change func(*NodeGroup)) string {
		g := NodeGroup{Name: "g", Nodes: 3, MaxNodes: 3, State: v1alpha1.NodeGroupExhausted, Reason: "NotTriggered", Message: "no node was added", RetryTime: time.Unix(3600, 0)}
		change(&g)
		c := with(growing("m", "eu", 0, 0, 0), func(c *Candidate) { c.Capacity.NodeGroups = nil; addGrowth(c.Capacity, g) })
		return Place(session("s"), []Candidate{c}, NewLedger()).Message
	}
	before := message(func(*NodeGroup) {})
	if after := message(func(g *NodeGroup) { g.Nodes, g.ProvisioningTime = 2, time.Minute }); after != before {
		t.Errorf("the message changed with nothing that matters:\n%s\n%s", before, after)
	}
	if after := message(func(g *NodeGroup) { g.RetryTime = time.Unix(7200, 0) }); after == before {
		t.Errorf("the message does not show when the group is tried again: %s", before)
	}
}

// Why a group adds no node is shown to sessions that a node of it could hold.
func TestAGroupThatCouldNotServeTheSessionIsNotNamed(t *testing.T) {
	full := NodeGroup{Name: "gpu", Nodes: 3, MaxNodes: 3, State: v1alpha1.NodeGroupFull}
	for name, tc := range map[string]struct {
		group NodeGroup
		free  Resources
		named bool
	}{
		"large enough": {full, free(8000, 32), true},
		"too small":    {full, free(500, 32), false},
		"of another":   {full, nil, false},
		"unknown":      {NodeGroup{Name: "gpu", State: v1alpha1.NodeGroupUnknown, Reason: "SourceNotFound"}, nil, true},
	} {
		c := member("eu", 0)
		c.Capacity.NodeGroups = []NodeGroup{tc.group}
		if tc.free != nil {
			desktop := c.Capacity.Templates[desk]
			desktop.Growth = &Growth{Growable: []NodeGroupBucket{{Bucket{0, tc.free.Amounts()}, "gpu"}}}
			c.Capacity.Templates[desk] = desktop
		}
		if got := Place(session("s"), []Candidate{c}, NewLedger()).Message; strings.Contains(got, "node group gpu") != tc.named {
			t.Errorf("%s: %s", name, got)
		}
	}
}
