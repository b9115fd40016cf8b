package member

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// everBefore sets that the member was connected to an earlier leader.
func everBefore(mc *v1alpha1.MemberCluster) { mc.Status.AgentVersion = "1" }

func (x *fixture) places(name string) string {
	d := x.Place(request(name), 1)
	if d.Placed {
		x.Observe(placedSession(name, 1, d.Cluster), false)
		return "placed"
	}
	return d.Reason
}

func placedSession(name string, epoch int64, at v1alpha1.ClusterRef) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{}
	s.Name, s.Namespace, s.UID = name, "desktops", types.UID("uid-"+name)
	s.Status.Placement = &v1alpha1.Placement{ClusterName: at.Name, ClusterUID: at.UID, Epoch: epoch, Run: 1}
	s.Status.Epoch = epoch
	return s
}

func TestRestoredHubPlacesNothingUntilEveryMemberHasReported(t *testing.T) {
	x := newFixture(t)
	for _, name := range []string{"eu", "us"} {
		x.register(name, types.UID("uid-"+name), everBefore)
	}
	x.register("new", "uid-new")
	x.register("out", "uid-out", everBefore, revoked)
	x.connect("uid-eu", "i1")
	x.Expect(x.places("a")).To(Equal("placed"))

	x.Restored()
	x.Expect(x.places("b")).To(Equal(v1alpha1.ReasonHubRestored))
	first := x.Place(request("b"), 1)
	x.Expect(first.Message).To(And(ContainSubstring("restored from a backup"), ContainSubstring("5m0s"), ContainSubstring("kubectl get memberclusters")))
	d, away := x.Resume(request("a"), v1alpha1.ClusterRef{Name: "eu", UID: "uid-eu"}, 1, 2)
	x.Expect([]any{d.Placed, d.Reason, away}).To(Equal([]any{false, v1alpha1.ReasonHubRestored, false}), "nothing is resumed either")

	m, _, err := x.open("uid-us", "i1")
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(x.places("b")).To(Equal(v1alpha1.ReasonHubRestored), "a hello has no reports")
	reportAll(m)
	x.Eventually(x.cluster("us")).Should(Succeed())
	x.Expect(x.places("b")).To(Equal(v1alpha1.ReasonHubRestored), "its capacity is not known")
	x.Expect(x.Place(request("b"), 1).Message).To(Equal(first.Message), "it is not written again with each report")
	m.Capacity(capacityReport(1, 100))
	x.Expect(x.places("b")).To(Equal("placed"), "neither the one that never connected nor the one that is revoked is awaited")

	m.Closed(nil)
	x.Expect(x.places("c")).To(Equal("placed"), "what has reported has")
	x.Restored()
	x.Expect(x.places("d")).To(Equal("placed"), "it is restored but once")
}

func TestRestoredHubWaitsForMembersForABoundedTime(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu", everBefore)
	x.register("us", "uid-us", everBefore)
	x.connect("uid-eu", "i1")
	x.Restored()
	x.renewFor("uid-eu", "i1", x.timings.Recovery-time.Second)
	x.Restored()
	x.Expect(x.places("a")).To(Equal(v1alpha1.ReasonHubRestored))
	x.renewFor("uid-eu", "i1", time.Second)
	x.Expect(x.places("a")).To(Equal("placed"), "a report of another agent does not prolong it")
}
