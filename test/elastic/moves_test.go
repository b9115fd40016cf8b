package elastic

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

// static returns a member with so many nodes of 16 cores, and no others.
func static(name string, nodes int) harness.MemberSpec {
	zone := name + "-a"
	return harness.MemberSpec{Name: name, Region: name, Zone: zone, Nodes: []kwok.NodeGroup{{Count: nodes, Region: name, Zone: zone}}}
}

// desktops is a node group of pool("desktops") whose shape is declared.
func desktops(maxNodes int32) v1alpha1.NodeGroup {
	return v1alpha1.NodeGroup{Name: "desktops", KarpenterNodePool: "desktops", MaxNodes: ptr.To(maxNodes), Node: standard16()}
}

// prefer creates a policy by which sessions of some templates, by default of all, are placed in a region
// although they must wait for a node there, and in others otherwise.
func prefer(ctx context.Context, region string, change ...func(*v1alpha1.PlacementPolicySpec)) {
	GinkgoHelper()
	policy := &v1alpha1.PlacementPolicy{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "prefer-"},
		Spec:       v1alpha1.PlacementPolicySpec{Overflow: []v1alpha1.OverflowTier{{Regions: []string{region}}, {}}},
	}
	for _, f := range change {
		f(&policy.Spec)
	}
	Expect(hub.Create(ctx, policy)).To(Succeed())
}

// ofTemplate limits a policy to the sessions of a template.
func ofTemplate(name string) func(*v1alpha1.PlacementPolicySpec) {
	return func(p *v1alpha1.PlacementPolicySpec) { p.Match.Templates, p.Precedence = []string{name}, 10 }
}

// called reports whether the name of a session begins with a prefix.
func called(prefix string) func(*v1alpha1.VDISession) bool {
	return func(s *v1alpha1.VDISession) bool { return strings.HasPrefix(s.Name, prefix+"-") }
}

// both reports whether a session matches all.
func both(all ...func(*v1alpha1.VDISession) bool) func(*v1alpha1.VDISession) bool {
	return func(s *v1alpha1.VDISession) bool {
		for _, match := range all {
			if !match(s) {
				return false
			}
		}
		return true
	}
}

// expectEpoch checks how often sessions were placed: 1 if they were not moved.
func expectEpoch(ctx context.Context, prefix string, epoch int64) {
	GinkgoHelper()
	for _, s := range sessions(ctx, called(prefix)) {
		Expect(s.Status.Epoch).To(Equal(epoch), "how often %s was placed", s.Name)
	}
}

// ranAfter returns the longest time from the creation of a session until it was Running.
func ranAfter(ctx context.Context, prefix string) (most time.Duration) {
	GinkgoHelper()
	for _, s := range sessions(ctx, called(prefix)) {
		Expect(s.Status.RunningSince).NotTo(BeNil(), "%s does not run", s.Name)
		most = max(most, s.Status.RunningSince.Sub(s.CreationTimestamp.Time))
	}
	return most
}

// placedAfter returns the shortest and the longest time from the creation of a session until its last
// placement.
func placedAfter(ctx context.Context, prefix string) (least, most time.Duration) {
	GinkgoHelper()
	least = time.Hour
	for _, s := range sessions(ctx, called(prefix)) {
		Expect(s.Status.Placement).NotTo(BeNil(), "%s is not placed", s.Name)
		after := s.Status.Placement.PlacementTime.Sub(s.CreationTimestamp.Time)
		least, most = min(least, after), max(most, after)
	}
	return least, most
}

// podReady returns the condition PodReady of a session as "reason: message".
func podReady(s *v1alpha1.VDISession) string {
	c := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionPodReady)
	if c == nil {
		return ""
	}
	return c.Reason + ": " + c.Message
}

// reasonOf returns the reason and the message of a member's node group.
func reasonOf(member, name string) func(context.Context) string {
	return func(ctx context.Context) string {
		m := &v1alpha1.MemberCluster{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: member}, m)).To(Succeed())
		for _, g := range m.Status.NodeGroups {
			if g.Name == name {
				return g.Reason + ": " + g.Message
			}
		}
		return "none"
	}
}

// notes returns the events of a reason about an object, as "name: note".
func notes(reason, prefix string) func(context.Context) []string {
	return func(ctx context.Context) (out []string) {
		list := &eventsv1.EventList{}
		Expect(hub.List(ctx, list)).To(Succeed())
		for _, e := range list.Items {
			if e.Reason == reason && strings.HasPrefix(e.Regarding.Name, prefix) {
				out = append(out, fmt.Sprintf("%s: %s", e.Regarding.Name, e.Note))
			}
		}
		return out
	}
}
