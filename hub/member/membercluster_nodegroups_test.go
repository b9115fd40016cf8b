package member

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// grows declares node groups of NodePools, with a limit each.
func grows(limits map[string]int32) func(*v1alpha1.MemberCluster) {
	return func(mc *v1alpha1.MemberCluster) {
		mc.Generation++
		mc.Spec.NodeGroups = nil
		for _, name := range []string{"desktops", "gpu"} {
			if limit, declared := limits[name]; declared {
				mc.Spec.NodeGroups = append(mc.Spec.NodeGroups, v1alpha1.NodeGroup{Name: name, KarpenterNodePool: name, MaxNodes: ptr.To(limit)})
			}
		}
	}
}

// growing is a capacity report with the states of node groups.
func growing(report *fleetv1.CapacityReport, slots int32, groups ...*fleetv1.NodeGroupStatus) *fleetv1.CapacityReport {
	report.NodeGroups, report.Templates[0].GrowableSlots = groups, slots
	return report
}

// sent returns the limits of the node groups of the last set that an agent got, and how many it got.
func (p *peer) sent() (limits map[string]int32, sets int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	limits = map[string]int32{}
	if len(p.templates) > 0 {
		for _, g := range p.templates[len(p.templates)-1].GetNodeGroups() {
			limits[g.GetName()] = g.GetMaxNodes()
		}
	}
	return limits, len(p.templates)
}

func TestAMembersAgentGetsItsNodeGroupsWithTheTemplatesOfAll(t *testing.T) {
	x := newFixture(t)
	set := &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{Name: "browser", Revision: "r1"}}}
	x.Expect(x.SetTemplates(t.Context(), set, nil)).To(Succeed())
	x.register("eu", "uid-eu", grows(map[string]int32{"desktops": 10}))
	x.register("us", "uid-us")
	_, eu := x.connect("uid-eu", "i1")
	_, us := x.connect("uid-us", "i1")
	limits, sets := eu.sent()
	x.Expect(limits).To(Equal(map[string]int32{"desktops": 10}))
	x.Expect(sets).To(Equal(1))
	x.Expect(us.templates).To(HaveLen(1))
	x.Expect(us.templates[0] == set).To(BeTrue(), "members without node groups share one set")
	x.Expect(&eu.templates[0].Templates[0] == &set.Templates[0]).To(BeTrue(), "and the others its templates")

	x.register("eu", "uid-eu", grows(map[string]int32{"desktops": 12, "gpu": 1}))
	limits, sets = eu.sent()
	x.Expect(limits).To(Equal(map[string]int32{"desktops": 12, "gpu": 1}), "a change is sent at once")
	x.Expect(sets).To(Equal(2))
	x.register("eu", "uid-eu", grows(map[string]int32{"desktops": 12, "gpu": 1}), func(mc *v1alpha1.MemberCluster) {
		mc.Generation, mc.Spec.Scheduling = 7, v1alpha1.SchedulingCordoned
	})
	_, sets = eu.sent()
	x.Expect(sets).To(Equal(2), "other changes are not")

	other := &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{Name: "browser", Revision: "r2"}}}
	x.Expect(x.SetTemplates(t.Context(), other, nil)).To(Succeed())
	limits, sets = eu.sent()
	x.Expect(limits).To(HaveLen(2), "new templates come with the node groups")
	x.Expect(eu.templates[2].Templates[0].Revision).To(Equal("r2"))
	x.Expect(sets).To(Equal(3))

	x.register("eu", "uid-eu")
	x.Expect(eu.templates).To(HaveLen(4))
	x.Expect(eu.templates[3] == other).To(BeTrue(), "without node groups it has the set of all others")
	_, sets = us.sent()
	x.Expect(sets).To(Equal(2), "no other member gets anything")
}

func TestAnAgentThatConnectsAgainGetsNodeGroupsThatItMayLack(t *testing.T) {
	ten, twelve := map[string]int32{"desktops": 10}, map[string]int32{"desktops": 12}
	state := &fleetv1.NodeGroupStatus{Name: "desktops", State: "Available"}
	for name, tc := range map[string]struct {
		before, after    map[string]int32
		atOnce, reported bool
	}{
		"none":              {nil, nil, false, false},
		"the same":          {ten, ten, true, true},
		"a raised limit":    {ten, twelve, true, true},
		"added meanwhile":   {nil, ten, true, true},
		"removed meanwhile": {ten, nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			x := watched(t)
			x.Expect(x.SetTemplates(t.Context(), &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{Name: "browser", Revision: "r1"}}}, nil)).To(Succeed())
			x.register("eu", "uid-eu", grows(tc.before))
			first, _ := x.connect("uid-eu", "i1")
			first.Closed(nil)
			x.register("eu", "uid-eu", grows(tc.after))
			stream, again, err := x.open("uid-eu", "i1")
			x.Expect(err).NotTo(HaveOccurred())
			limits, sets := again.sent()
			x.Expect(sets > 0).To(Equal(tc.atOnce))
			if tc.atOnce {
				x.Expect(limits).To(Equal(tc.after))
			}
			reportAll(stream)
			report := capacityReport(2, 100)
			if tc.before != nil {
				report = growing(report, 0, state)
			}
			stream.Capacity(report)
			limits, sets = again.sent()
			x.Expect(sets > 0).To(Equal(tc.reported))
			x.Expect(sets).To(BeNumerically("<=", 1))
			x.Expect(limits).To(HaveLen(len(tc.after)))
		})
	}
}

func TestStatusShowsNodeGroups(t *testing.T) {
	is := func(c *placement.Capacity) view {
		return view{facts: facts{reportedCapacity: reportedCapacity{capacity: c}}, current: map[string]string{"browser": "r1"}}
	}
	reported := capacityFromWire(growing(capacityReport(1, 3), 26,
		&fleetv1.NodeGroupStatus{Name: "later", Growable: 1, State: "Mothballed"},
		&fleetv1.NodeGroupStatus{Name: "desktops", Nodes: 12, Provisioning: 2, Growable: 26, MaxNodes: 40, State: "Available", ProvisioningTime: durationpb.New(93 * time.Second)},
		&fleetv1.NodeGroupStatus{Name: "gpu", Nodes: 4, State: "Exhausted", Reason: "InsufficientCapacity", Message: "Quota exceeded", RetryTime: timestamppb.New(time.Unix(1_700_000_000, 5))},
	), 0)
	status := &v1alpha1.MemberClusterStatus{}
	writeStatus(status, is(reported), 1)
	if got := ptr.Deref(status.GrowableNodes, -1); got != 27 {
		t.Errorf("%d growable nodes in all", got)
	}
	if status.Templates[0].Growable != 26 || status.Templates[0].Slots != 3 {
		t.Errorf("growable slots of a template: %+v", status.Templates[0])
	}
	got := status.NodeGroups
	if len(got) != 3 || got[0].Nodes != 12 || got[0].Provisioning != 2 || got[0].Growable != 26 || got[0].MaxNodes != 40 || got[0].ProvisioningTime != "1m35s" {
		t.Errorf("got %+v", got)
	}
	if got[1].State != v1alpha1.NodeGroupExhausted || got[1].Reason != "InsufficientCapacity" || got[1].Message != "Quota exceeded" || got[1].RetryTime.Unix() != 1_700_000_000 || got[1].RetryTime.Nanosecond() != 0 {
		t.Errorf("got %+v", got[1])
	}
	if got[2].State != v1alpha1.NodeGroupUnknown {
		t.Errorf("a state that the API does not have: %s", got[2].State)
	}
	before := status.DeepCopy()
	writeStatus(status, is(reported), 1)
	if diff := cmp.Diff(before, status); diff != "" {
		t.Errorf("writing it again changes it:\n%s", diff)
	}
	writeStatus(status, view{}, 1)
	if len(status.NodeGroups) != 3 {
		t.Error("they are lost while the agent is away")
	}
	writeStatus(status, is(capacityFromWire(capacityReport(2, 3), 0)), 1)
	if status.NodeGroups != nil || status.GrowableNodes != nil || status.Templates[0].Growable != 0 {
		t.Errorf("a member without node groups shows %+v", status)
	}
}

func TestShownProvisioningTimesAreSteady(t *testing.T) {
	for _, tc := range []struct {
		shown    v1alpha1.Duration
		reported time.Duration
		want     v1alpha1.Duration
	}{
		{"", 93 * time.Second, "1m35s"}, {"", time.Second, "5s"}, {"1m40s", 93 * time.Second, "1m40s"}, {"1m40s", 2 * time.Minute, "1m40s"},
		{"1m40s", 121 * time.Second, "2m0s"}, {"1m40s", 79 * time.Second, "1m20s"}, {"1m40s", 80 * time.Second, "1m40s"}, {"1m40s", 0, ""},
		{"soon", 2 * time.Minute, "2m0s"},
	} {
		if got := steadyTime(tc.shown, tc.reported); got != tc.want {
			t.Errorf("of %q and then %s, %q is shown, not %q", tc.shown, tc.reported, got, tc.want)
		}
	}
}

func TestANodeGroupThatAddsNoNodeIsAnnouncedOnce(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	m, _ := x.connect("uid-eu", "i1")
	x.reconcile("eu")
	for len(x.recorder.Events) > 0 {
		<-x.recorder.Events
	}
	sequence := uint64(1)
	report := func(g *fleetv1.NodeGroupStatus) {
		sequence++
		g.Name = "desktops"
		m.Capacity(growing(capacityReport(sequence, 100), 0, g))
		x.reconcile("eu")
	}
	shown := func() string {
		mc := &v1alpha1.MemberCluster{}
		x.Expect(x.c.Get(context.Background(), client.ObjectKey{Name: "eu"}, mc)).To(Succeed())
		if len(mc.Status.NodeGroups) == 0 {
			return ""
		}
		return string(mc.Status.NodeGroups[0].State)
	}
	exhausted := func(reason string) *fleetv1.NodeGroupStatus {
		return &fleetv1.NodeGroupStatus{State: "Exhausted", Reason: reason, Message: "Quota 'CPUS' exceeded", RetryTime: timestamppb.New(time.Unix(1_700_000_000, 0))}
	}

	report(exhausted("InsufficientCapacity"))
	x.Expect(shown()).To(Equal("Exhausted"), "it is shown at once")
	x.Expect(x.recorder.Events).To(Receive(Equal(
		"Warning NodeGroupExhausted node group desktops adds no node: InsufficientCapacity, Quota 'CPUS' exceeded; next attempt at 22:13 UTC")))
	again := exhausted("InsufficientCapacity")
	again.RetryTime = timestamppb.New(time.Unix(1_700_000_600, 0))
	x.clock.Step(backoff.StatusInterval)
	report(again)
	x.Expect(x.recorder.Events).NotTo(Receive(), "it is still exhausted")
	x.clock.Step(backoff.StatusInterval)
	report(exhausted("NotTriggered"))
	x.Expect(x.recorder.Events).To(Receive(ContainSubstring("NotTriggered")), "for another reason")

	report(&fleetv1.NodeGroupStatus{State: "Available", Nodes: 5, Provisioning: 1, Growable: 4})
	x.Expect(shown()).To(Equal("Available"))
	x.Expect(x.recorder.Events).To(Receive(Equal(
		"Normal NodeGroupRecovered node group desktops adds nodes again: it has 5, is adding 1, and may add 4 more")))
	writes := x.writes
	report(&fleetv1.NodeGroupStatus{State: "Full", Nodes: 10})
	x.Expect(x.writes).To(Equal(writes), "other changes wait as counts do")
	x.clock.Step(backoff.StatusInterval)
	x.reconcile("eu")
	x.Expect(shown()).To(Equal("Full"))
	x.Expect(x.recorder.Events).NotTo(Receive())
}

func TestEventNotesOfNodeGroupsAreBounded(t *testing.T) {
	note := exhaustedNote(&v1alpha1.NodeGroupStatus{Name: strings.Repeat("n", 253), Reason: strings.Repeat("R", 50), Message: strings.Repeat("é", 512)})
	if len(note) > 1024 || !strings.Contains(note, "éé") {
		t.Errorf("%d bytes", len(note))
	}
}
