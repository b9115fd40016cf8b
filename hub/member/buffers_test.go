package member

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// buffers declares buffers.
func buffers(all ...v1alpha1.Buffer) func(*v1alpha1.MemberCluster) {
	return func(mc *v1alpha1.MemberCluster) {
		mc.Generation++
		mc.Spec.Buffers = all
	}
}

// rush is a buffer with a period from 22:20 to 22:30 UTC. The clock of a fixture begins at 22:13:20.
func rush(template string, slots, then int32) v1alpha1.Buffer {
	return v1alpha1.Buffer{Template: template, Slots: slots, Schedule: []v1alpha1.BufferPeriod{{From: "22:20", To: "22:30", TimeZone: "UTC", Slots: then}}}
}

// ordered returns the buffers of the last set that an agent got, and how many sets it got.
func (p *peer) ordered() (buffers string, sets int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.templates) == 0 {
		return "", 0
	}
	for _, b := range p.templates[len(p.templates)-1].GetBuffers() {
		buffers += fmt.Sprintf("%s@%s:%d ", b.GetTemplate(), b.GetRevision(), b.GetSlots())
	}
	return strings.TrimSpace(buffers), len(p.templates)
}

func TestAMembersAgentGetsWhatItsBuffersAreToHoldNow(t *testing.T) {
	x := newFixture(t)
	set := &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{Name: "browser", Revision: "r1"}, {Name: "browser", Revision: "r2"}}}
	declared := buffers(rush("developer", 0, 0), rush("browser", 5, 60))
	x.register("eu", "uid-eu", declared)
	x.register("us", "uid-us")
	_, eu := x.connect("uid-eu", "i1")
	_, us := x.connect("uid-us", "i1")
	expect := func(want string, sets int, why string) {
		t.Helper()
		got, count := eu.ordered()
		x.Expect(got).To(Equal(want), why)
		x.Expect(count).To(Equal(sets), why)
	}
	expect("browser@:5 developer@:0", 1, "the hub has not read its templates, and ends no buffer for that")
	x.Expect(x.SetTemplates(t.Context(), set, map[string]string{"browser": "r1"})).To(Succeed())
	expect("browser@r1:5", 2, "there is no template developer")
	x.Expect(&eu.templates[1].Templates[0] == &set.Templates[0]).To(BeTrue(), "the templates are shared")
	x.Expect(x.SetTemplates(t.Context(), set, map[string]string{"browser": "r2"})).To(Succeed())
	expect("browser@r2:5", 3, "another revision is the current one")
	x.Expect(x.SetTemplates(t.Context(), set, map[string]string{"browser": "r2"})).To(Succeed())
	expect("browser@r2:5", 3, "nothing has changed")

	x.clock.Step(6*time.Minute + 39*time.Second)
	x.register("eu", "uid-eu", declared)
	expect("browser@r2:5", 3, "the period has not begun")
	x.clock.Step(time.Second)
	x.register("eu", "uid-eu", declared)
	expect("browser@r2:60", 4, "the period has begun")
	x.clock.Step(10 * time.Minute)
	x.register("eu", "uid-eu", declared)
	expect("browser@r2:5", 5, "the period has ended")
	x.clock.SetTime(x.clock.Now().Add(-time.Minute))
	x.register("eu", "uid-eu", declared)
	expect("browser@r2:60", 6, "the clock was set back")

	x.register("eu", "uid-eu", buffers(rush("browser", 5, 70)))
	expect("browser@r2:70", 7, "a change of the spec is sent at once")
	x.register("eu", "uid-eu", buffers(rush("browser", 9, 70)))
	expect("browser@r2:70", 7, "but not one that changes nothing now")
	x.register("eu", "uid-eu")
	expect("", 8, "without buffers")
	x.Expect(eu.templates[7] == us.templates[1]).To(BeTrue(), "it has the set of all others")
	_, sets := us.ordered()
	x.Expect(sets).To(Equal(2), "no other member gets anything")
}

func TestAnAgentThatConnectsAgainGetsBuffersThatItMayLack(t *testing.T) {
	five, nine := []v1alpha1.Buffer{{Template: "browser", Slots: 5}}, []v1alpha1.Buffer{{Template: "browser", Slots: 9}}
	for name, tc := range map[string]struct {
		before, after []v1alpha1.Buffer
		atOnce, in    string
	}{
		"none":              {nil, nil, "", ""},
		"the same":          {five, five, "browser@r1:5", "browser@r1:5"},
		"other slots":       {five, nine, "browser@r1:9", "browser@r1:9"},
		"added meanwhile":   {nil, five, "browser@r1:5", "browser@r1:5"},
		"removed meanwhile": {five, nil, "", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			x := watched(t)
			set := &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{Name: "browser", Revision: "r1"}}}
			x.Expect(x.SetTemplates(t.Context(), set, map[string]string{"browser": "r1"})).To(Succeed())
			x.register("eu", "uid-eu", buffers(tc.before...))
			first, _ := x.connect("uid-eu", "i1")
			first.Closed(nil)
			x.register("eu", "uid-eu", buffers(tc.after...))
			stream, again, err := x.open("uid-eu", "i1")
			x.Expect(err).NotTo(HaveOccurred())
			got, _ := again.ordered()
			x.Expect(got).To(Equal(tc.atOnce))
			reportAll(stream)
			report := capacityReport(2, 100)
			if tc.before != nil {
				report.Buffers = []*fleetv1.BufferStatus{{Template: "browser", Held: 5}}
			}
			stream.Capacity(report)
			got, sets := again.ordered()
			if got == "" && sets > 0 {
				got = "none"
			}
			x.Expect(got).To(Equal(tc.in))
			x.Expect(sets).To(BeNumerically("<=", 1))
		})
	}
}

func TestStatusShowsBuffers(t *testing.T) {
	reported := func(all ...*fleetv1.BufferStatus) view {
		report := capacityReport(1, 3)
		report.Buffers = all
		v := view{facts: facts{reportedCapacity: reportedCapacity{capacity: capacityFromWire(report, 0)}}, current: map[string]string{"browser": "r1", "developer": "r1"}}
		v.spec.Buffers = []v1alpha1.Buffer{rush("developer", 3, 9), rush("browser", 5, 60)}
		v.buffers.evaluate(v.spec.Buffers, time.Unix(1_700_000_000, 0))
		return v
	}
	status := &v1alpha1.MemberClusterStatus{}
	check := func(why string, condition string, want ...v1alpha1.BufferStatus) {
		t.Helper()
		if diff := cmp.Diff(want, status.Buffers); diff != "" {
			t.Errorf("%s (-want +got):\n%s", why, diff)
		}
		got := ""
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionBuffered); c != nil {
			got = fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
		if got != condition {
			t.Errorf("%s: %s", why, got)
		}
	}
	held := reported(&fleetv1.BufferStatus{Template: "developer", Held: 1, Pending: 2}, &fleetv1.BufferStatus{Template: "browser", Held: 5})
	const kept = "True BuffersKept: every buffer is kept: status.buffers has what each holds"
	writeStatus(status, held, 1)
	check("all are kept", kept, v1alpha1.BufferStatus{Template: "browser", Slots: 5, Held: 5}, v1alpha1.BufferStatus{Template: "developer", Slots: 3, Held: 1, Pending: 2})

	away := held
	away.capacity = nil
	away.buffers.evaluate(away.spec.Buffers, time.Unix(1_700_000_000, 0).Add(10*time.Minute))
	writeStatus(status, away, 1)
	check("the agent is away, and a period begins", kept, v1alpha1.BufferStatus{Template: "browser", Slots: 60, Held: 5}, v1alpha1.BufferStatus{Template: "developer", Slots: 9, Held: 1, Pending: 2})

	const unreported = "the agent has not reported it: if that lasts, check that the member is Ready, and upgrade its agent"
	full := &fleetv1.BufferStatus{Template: "browser", Held: 2, Reason: v1alpha1.ReasonBufferCapacity, Message: "3 slots do not fit"}
	writeStatus(status, reported(full), 1)
	check("one lacks capacity, the other is not reported", "False NoBufferCapacity: the buffer of template browser is not kept: 3 slots do not fit; 1 more are not either: see status.buffers",
		v1alpha1.BufferStatus{Template: "browser", Slots: 5, Held: 2, Reason: "NoBufferCapacity", Message: "3 slots do not fit"},
		v1alpha1.BufferStatus{Template: "developer", Slots: 3, Reason: "BufferUnreported", Message: unreported})

	unknown := reported(full, &fleetv1.BufferStatus{Template: "developer", Held: 3, Reason: "<b>"})
	unknown.current = map[string]string{"developer": "r1"}
	writeStatus(status, unknown, 1)
	const missing = "there is no VDITemplate of this name: create it, or remove the buffer from spec.buffers"
	check("a template that does not exist, and a reason that the API does not have", "False TemplateNotFound: the buffer of template browser is not kept: "+missing+"; 1 more are not either: see status.buffers",
		v1alpha1.BufferStatus{Template: "browser", Slots: 5, Reason: "TemplateNotFound", Message: missing},
		v1alpha1.BufferStatus{Template: "developer", Slots: 3, Held: 3, Reason: "BufferFailed"})

	atlantis := reported(&fleetv1.BufferStatus{Template: "browser", Held: 5})
	atlantis.current, atlantis.spec.Buffers = nil, []v1alpha1.Buffer{rush("browser", 5, 60)}
	atlantis.spec.Buffers[0].Schedule[0].TimeZone = "Europe/Atlantis"
	atlantis.buffers.evaluate(atlantis.spec.Buffers, time.Unix(1_700_000_000, 0))
	writeStatus(status, atlantis, 1)
	const ignored = "the hub ignores a period of its schedule, which it can't read (unknown time zone Europe/Atlantis): correct it"
	check("a time zone that the hub does not know", "False BufferScheduleInvalid: the buffer of template browser is not kept: "+ignored,
		v1alpha1.BufferStatus{Template: "browser", Slots: 5, Held: 5, Reason: "BufferScheduleInvalid", Message: ignored})

	none := reported()
	none.spec.Buffers = nil
	writeStatus(status, none, 1)
	check("the spec has none", "")
}

// The boundary of a period wakes the controller, although nothing else happens to the member.
func TestTheControllerWakesWhenAPeriodBegins(t *testing.T) {
	mc := newMemberObject("eu")
	mc.Spec.Buffers = []v1alpha1.Buffer{rush("browser", 5, 60)}
	x := newControllers(t, mc)
	result := x.reconcile("eu")
	x.Expect(result.RequeueAfter).To(Equal(6*time.Minute + 40*time.Second))
	x.clock.Step(result.RequeueAfter)
	x.Expect(x.reconcile("eu").RequeueAfter).To(Equal(10 * time.Minute))
	got := &v1alpha1.MemberCluster{}
	x.Expect(x.c.Get(context.Background(), client.ObjectKey{Name: "eu"}, got)).To(Succeed())
	x.Expect(got.Status.Buffers).To(HaveLen(1))
	x.Expect(got.Status.Buffers[0].Slots).To(BeEquivalentTo(60))
}
