package member

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// renewUncertain renews the lease of an agent that can't write to its API server.
func (x *fixture) renewUncertain(instance string) {
	_, err := x.Renew("uid-eu", link.Renewal{Instance: instance, LeadershipUncertain: true})
	x.Expect(err).NotTo(HaveOccurred())
}

func TestALaterReplicaReplacesOneThatIsNotCertainToLead(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	incumbent := &peer{}
	_, err := x.Open(context.Background(), "uid-eu", &fleetv1.Hello{Fingerprint: "fp", Instance: "i1", AgentTerm: 4}, incumbent)
	x.Expect(err).NotTo(HaveOccurred())
	x.renew("uid-eu", "i1")
	_, err = x.openAs("clone", 5)
	x.Expect(err).To(MatchError(link.ErrAlreadyConnected), "the incumbent is certain to lead: the other is none of its replicas")

	x.renewUncertain("i1")
	for _, term := range []int64{3, 4} {
		_, err = x.openAs("earlier", term)
		x.Expect(err).To(HaveOccurred(), "no replica of term %d has taken the lock since", term)
	}
	x.Expect(incumbent.closed).NotTo(HaveOccurred())
	_, err = x.openAs("i2", 5)
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(incumbent.closed).To(MatchError(ContainSubstring("replaced")))

	_, err = x.Renew("uid-eu", link.Renewal{Instance: "i1", LeadershipUncertain: true})
	x.Expect(err).To(MatchError(link.ErrAlreadyConnected), "it has no stream any more")
	_, err = x.openAs("i1", 4)
	x.Expect(err).To(MatchError(link.ErrStaleAgent))
	_, err = x.openAs("i3", 6)
	x.Expect(err).To(MatchError(link.ErrAlreadyConnected), "the uncertainty was that of its predecessor")

	x.renewUncertain("i2")
	x.renew("uid-eu", "i2")
	_, err = x.openAs("i3", 6)
	x.Expect(err).To(MatchError(link.ErrAlreadyConnected), "it has renewed its lock since")
}

func TestAMemberWhoseAgentCannotWriteAcceptsNoSessionsAndKeepsItsOwn(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	x.connect("uid-eu", "i1")
	x.renewFor("uid-eu", "i1", time.Minute)
	x.Expect(x.State("uid-eu").Health).To(Equal(health.Ready))
	losses := x.losses("eu")

	for range 120 { // 10 min
		x.clock.Step(x.timings.Renew)
		x.renewUncertain("i1")
	}
	x.Expect(x.State("uid-eu").Health).To(Equal(health.Suspect), "and not Unreachable, by which its sessions would move")
	ready, why := x.uids["uid-eu"].acceptsSessions(x.timings, x.clock.Now())
	x.Expect(ready).To(BeFalse())
	x.Expect(why).To(Equal("its agent can't write to its API server"))
	x.reconcile("eu")
	x.Expect(x.member("eu").Status.Conditions).To(ContainElement(And(
		HaveField("Type", v1alpha1.ConditionReady), HaveField("Status", metav1.ConditionUnknown),
		HaveField("Reason", v1alpha1.ReasonSuspect), HaveField("Message", ContainSubstring("can't write to the member's API server")),
	)))

	x.clock.Step(x.timings.Renew)
	x.renew("uid-eu", "i1")
	x.Expect(x.State("uid-eu").Health).To(Equal(health.Ready), "at once: it was never lost")
	x.Expect(x.losses("eu")).To(Equal(losses), "and no loss is counted")

	x.renewUncertain("i1")
	x.clock.Step(x.timings.Unreachable)
	x.Expect(x.State("uid-eu").Health).To(Equal(health.Unreachable), "without heartbeats it is lost as any other")
}
