package member

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/version"
)

// In a large fleet the agents get new templates one after another. An agent that connects
// meanwhile has them already, and the sending ends with the hub.
func TestManyAgentsGetTemplatesOneAfterAnother(t *testing.T) {
	x := newFixture(t)
	x.sending.SetLimit(rate.Every(time.Hour))
	x.sending.SetBurst(2)
	peers := make([]*peer, 4)
	for i := range peers {
		uid := types.UID(fmt.Sprintf("uid-m%d", i))
		x.register(string(uid[4:]), uid)
		_, peers[i] = x.connect(uid, "i1")
	}
	set := &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{Name: "browser"}}}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := x.SetTemplates(ctx, set, nil); err == nil {
		t.Fatal("all agents have the templates at once")
	}
	sent := 0
	for _, p := range peers {
		sent += count(p.has(set))
	}
	x.Expect(sent).To(Equal(2))

	_, again := x.connect("uid-m3", "i1")
	x.Expect(again.has(set)).To(BeTrue(), "an agent that connects has them")
	before := len(again.templates)
	x.fleetLocked(func(m *member) { x.sendTemplates(m) }, "uid-m3")
	x.Expect(again.templates).To(HaveLen(before), "and they are not sent twice")
}

// An agent that connects again has what was sent to its process, unless its report shows otherwise.
func TestAnAgentThatConnectsAgainGetsOnlyTemplatesThatItLacks(t *testing.T) {
	set := &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{Name: "browser", Revision: "r1"}}}
	other := &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{Name: "browser", Revision: "r2"}}}
	two := &fleetv1.TemplateSet{Templates: append(other.Templates[:1:1], set.Templates...)}
	for name, tc := range map[string]struct {
		before   *fleetv1.TemplateSet // sent before the agent disconnects
		after    *fleetv1.TemplateSet // the templates when it connects again, and reports browser r1
		instance string
		sent     bool
	}{
		"it has them":                       {set, set, "i1", false},
		"another process":                   {set, set, "i2", true},
		"they have changed":                 {set, other, "i1", true},
		"it has not received the last ones": {other, other, "i1", true},
		"it has not received one of them":   {two, two, "i1", true},
	} {
		t.Run(name, func(t *testing.T) {
			x := watched(t)
			x.register("eu", "uid-eu")
			x.Expect(x.SetTemplates(t.Context(), tc.before, nil)).To(Succeed())
			first, p := x.connect("uid-eu", "i1")
			x.Expect(p.has(tc.before)).To(BeTrue())
			first.Closed(nil)
			x.Expect(x.SetTemplates(t.Context(), tc.after, nil)).To(Succeed())
			stream, again := x.connect("uid-eu", tc.instance)
			x.Expect(again.has(tc.after)).To(Equal(tc.sent))
			before := len(again.templates)
			stream.Capacity(capacityReport(2, 100))
			x.Expect(again.templates).To(HaveLen(before), "the first report decides")
		})
		t.Run(name+", reporting changes", func(t *testing.T) {
			x := watched(t)
			x.register("eu", "uid-eu")
			x.Expect(x.SetTemplates(t.Context(), tc.before, nil)).To(Succeed())
			first, _ := x.connect("uid-eu", "i1")
			first.Closed(nil)
			x.Expect(x.SetTemplates(t.Context(), tc.after, nil)).To(Succeed())
			stream, again, err := x.open("uid-eu", tc.instance)
			x.Expect(err).NotTo(HaveOccurred())
			reportAll(stream)
			if tc.instance != "i1" {
				x.Expect(stream.CapacitySequence()).To(BeZero(), "another process has reported nothing")
				return
			}
			x.Expect(stream.CapacitySequence()).To(BeEquivalentTo(1))
			stream.Capacity(&fleetv1.CapacityReport{Sequence: 2, BasedOn: 1, Nodes: 100, AdmittedNamespaces: []string{"desktops"}})
			x.Expect(again.has(tc.after)).To(Equal(tc.sent))
			x.fleetLocked(func(m *member) {
				x.Expect(m.fresh && m.capacity.Sequence == 2).To(BeTrue(), "its capacity counts again")
			}, "uid-eu")
		})
	}
}

func TestAReportWithOtherTemplatesThanRequestedDiffers(t *testing.T) {
	requested := keysOf(&fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{Name: "a", Revision: "1"}, {Name: "b", Revision: "1"}}})
	a, b, c, b2 := &fleetv1.TemplateCapacity{Name: "a", Revision: "1"}, &fleetv1.TemplateCapacity{Name: "b", Revision: "1"},
		&fleetv1.TemplateCapacity{Name: "c", Revision: "1"}, &fleetv1.TemplateCapacity{Name: "b", Revision: "2"}
	for _, tc := range []struct {
		reported []*fleetv1.TemplateCapacity
		equal    bool
	}{
		{[]*fleetv1.TemplateCapacity{a, b}, true},
		{[]*fleetv1.TemplateCapacity{b, a}, true},
		{[]*fleetv1.TemplateCapacity{a}, false},
		{[]*fleetv1.TemplateCapacity{a, b, c}, false},
		{[]*fleetv1.TemplateCapacity{a, b2}, false},
		{nil, false},
	} {
		if requested.equal(&fleetv1.CapacityReport{Templates: tc.reported}, nil) != tc.equal {
			t.Errorf("%v", tc.reported)
		}
	}
}

func (p *peer) has(set *fleetv1.TemplateSet) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.templates) > 0 && p.templates[len(p.templates)-1] == set
}

func (x *fixture) fleetLocked(f func(*member), uid types.UID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	f(x.uids[uid])
}

// Agents with a door get what it needs when they connect, when it changes, and when their domain does.
func TestDoorsGetTheirConfiguration(t *testing.T) {
	x := newFixture(t)
	mc := x.register("eu", "uid-eu")
	x.register("us", "uid-us")
	door := &peer{}
	_, err := x.Open(t.Context(), "uid-eu", &fleetv1.Hello{Fingerprint: "fp", Instance: "i1", Capabilities: []string{version.Door}}, door)
	x.Expect(err).NotTo(HaveOccurred())
	_, other := x.connect("uid-us", "i1")
	x.Expect(door.doors).To(BeEmpty(), "the hub has not read the keys yet")

	keys := []*fleetv1.VisitKey{{Id: "a", PublicKey: []byte("key")}}
	x.SetDoor(&fleetv1.DoorConfig{ConsoleOrigin: "https://vdi.example.com", Keys: keys})
	want := &fleetv1.DoorConfig{ConsoleOrigin: "https://vdi.example.com", Keys: keys, Domain: "eu.example.com"}
	x.Expect(door.doors).To(HaveLen(1))
	x.Expect(proto.Equal(door.doors[0], want)).To(BeTrue(), "%v", door.doors[0])

	mc = mc.DeepCopy()
	mc.Spec.IngressDomain, mc.Generation = "paris.example.com", 2
	x.Register(mc)
	x.Expect(door.doors).To(HaveLen(2))
	x.Expect(door.doors[1].GetDomain()).To(Equal("paris.example.com"))

	again := &peer{}
	_, err = x.Open(t.Context(), "uid-eu", &fleetv1.Hello{Fingerprint: "fp", Instance: "i1", Capabilities: []string{version.Door}}, again)
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(again.doors).To(HaveLen(1), "a new connection")
	x.Expect(other.doors).To(BeEmpty(), "an agent without a door")
}

func (p *peer) SetDoor(d *fleetv1.DoorConfig) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.doors = append(p.doors, d)
}
