package member

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func (x *fixture) openAs(instance string, term int64) (link.Member, error) {
	return x.Open(context.Background(), "uid-eu", &fleetv1.Hello{Fingerprint: "fp", Instance: instance, AgentTerm: term}, &peer{})
}

func TestAgentOfAnEarlierTermIsAdmittedOnceTheLaterOneIsSilent(t *testing.T) {
	x := newControllers(t, newMemberObject("eu"))
	x.reconcile("eu")
	newer, err := x.openAs("newer", 1<<40)
	x.Expect(err).NotTo(HaveOccurred())
	x.renewFor("uid-eu", "newer", time.Minute)
	_, err = x.openAs("real", 7)
	x.Expect(err).To(MatchError(link.ErrStaleAgent), "it is connected")
	newer.Closed(nil)
	x.clock.Step(x.timings.Unreachable - 1)
	_, err = x.openAs("real", 7)
	x.Expect(err).To(MatchError(link.ErrStaleAgent), "it sent a heartbeat a moment ago")
	x.reconcile("eu")
	x.Expect(x.newEvents()).NotTo(ContainElement(ContainSubstring(v1alpha1.EventOlderAgent)))

	x.clock.Step(1)
	_, err = x.openAs("real", 7)
	x.Expect(err).NotTo(HaveOccurred())
	x.reconcile("eu")
	x.Expect(x.newEvents()).To(ContainElement(And(HavePrefix("Warning "+v1alpha1.EventOlderAgent), ContainSubstring("of term 7"))))
	x.reconcile("eu")
	x.Expect(x.newEvents()).To(BeEmpty(), "it is reported once")
	_, err = x.openAs("older", 6)
	x.Expect(err).To(MatchError(link.ErrStaleAgent), "its term is the one that counts now")
}

// A stream that is open without renewals does not lock out another agent.
func TestAgentOfAnEarlierTermReplacesOneThatRenewsNothing(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	held := &peer{}
	_, err := x.Open(context.Background(), "uid-eu", &fleetv1.Hello{Fingerprint: "fp", Instance: "newer", AgentTerm: 9}, held)
	x.Expect(err).NotTo(HaveOccurred())
	x.clock.Step(x.timings.Unreachable)
	_, err = x.openAs("real", 1)
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(held.closed).To(MatchError(ContainSubstring("replaced")))
}

// newEvents returns the events since its last call.
func (x *controllers) newEvents() []string {
	var out []string
	for {
		select {
		case e := <-x.recorder.Events:
			out = append(out, e)
		default:
			return out
		}
	}
}
