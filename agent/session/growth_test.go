package session

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// fixedGrowth is what Pods depend on.
type fixedGrowth map[types.UID]observe.Growth

func (g fixedGrowth) Growth(pod types.UID) observe.Growth      { return g[pod] }
func (g fixedGrowth) GrowthChanges() <-chan event.GenericEvent { return nil }

// A Pod that depends on a node that is being added is not reported as one that fits on no node. Each change is
// written once, and an attempt never fails of it.
func TestStatusOfAPodThatWaitsForANode(t *testing.T) {
	s := newStage(t, desktop())
	growth := fixedGrowth{}
	s.r.Growth = growth
	s.pass()
	s.pass()
	var p corev1.Pod
	s.get(&p)
	s.setPod(func(p *corev1.Pod) { unfit(p) })
	growth[p.UID] = observe.Growth{Group: "desktops", Usual: 95 * time.Second}
	s.after(time.Minute)
	expect := func(reason, message string) {
		t.Helper()
		if got := s.condition(api.ConditionPodReady); got.Reason != reason || !strings.Contains(got.Message, message) {
			t.Errorf("PodReady is %+v, want %s: %s", got, reason, message)
		}
	}
	expect(api.ReasonNodeProvisioning, "node group desktops is adding one, usually 95 s")
	s.wrote()
	for range 10 {
		s.after(time.Minute)
	}
	if writes := s.wrote(); len(writes) > 0 {
		t.Errorf("nothing has changed, and it writes %v", writes)
	}
	growth[p.UID] = observe.Growth{Group: "desktops", Failed: "it has 10 of 10 nodes: raise maxNodes of the MemberCluster"}
	s.pass()
	expect(api.ReasonScaleUpFailed, "Node group desktops adds no node: it has 10 of 10 nodes")
	if writes := s.wrote(); len(writes) != 1 {
		t.Errorf("it writes %v", writes)
	}
	s.after(time.Hour)
	if a := s.assignment(); a.Status.Failure != nil {
		t.Errorf("it has failed: %+v", a.Status.Failure)
	}
	s.bind()
	s.pass()
	if got := s.condition(api.ConditionPodReady); got.Reason == api.ReasonScaleUpFailed {
		s.after(time.Minute)
		expect(api.ReasonStarting, "node n1")
	}
}
