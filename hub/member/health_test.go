package member

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// For a hub that was on standby for hours, nothing counts against members when it begins to
// lead.
func TestNewLeaderDoesNotCountEarlierSilenceAgainstMembers(t *testing.T) {
	x := newFixture(t)
	x.clock.Step(24 * time.Hour)
	x.register("eu", "uid-eu", connectedBefore)
	x.Expect(x.State("uid-eu").Health).To(Equal(health.Unknown))
	x.clock.Step(x.timings.Unreachable)
	x.Expect(x.State("uid-eu").Health).To(Equal(health.Unreachable))
	x.connect("uid-eu", "i1")
	x.Expect(x.State("uid-eu").Health).To(Equal(health.Ready), "its first heartbeat makes it Ready: no failure of it was observed")
}

// connectedBefore sets that the member's agent has connected to an earlier leader.
func connectedBefore(mc *v1alpha1.MemberCluster) {
	mc.Status.Fingerprint = "fp"
	v1alpha1.SetCondition(&mc.Status.Conditions, 1, condition(v1alpha1.ConditionConnected)(metav1.ConditionTrue, v1alpha1.ReasonConnected, ""))
}
