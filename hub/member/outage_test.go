package member

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
)

// back connects the agents of members again.
func (r *region) back(names ...string) {
	for _, name := range names {
		uid := types.UID("uid-" + name)
		delete(r.dead, uid)
		r.connectAs(uid)
	}
}

// All members are lost, and two reconnect first. The third one's agent gets the time to
// reconnect that it would have without the outage, so that its desktops do not run twice.
func TestMembersThatWereLostTogetherGetTheirFullTimeAfterTheOutage(t *testing.T) {
	r := newRegion(t, "eu", "us", "asia")
	r.disconnect("us", "asia")
	r.passes(r.timings.Renew)
	r.disconnect("eu")
	r.passes(time.Hour)
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Message).To(ContainSubstring("the hub itself may be cut off"))

	r.back("us", "asia")
	full := r.timings.Unreachable + r.timings.Failover.After
	for _, mode := range []failover.Session{restarts, {Mode: v1alpha1.FailoverRestart, After: new(time.Duration)}} {
		r.Expect(r.FailoverOf("uid-eu").Decide(mode).Due).To(BeFalse(), "the pause has just ended")
	}
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Wait).To(Equal(full))
	r.passes(full - time.Second)
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Due).To(BeFalse())
	r.passes(time.Second)
	to, _ := r.moves("a", restarts, "uid-eu")
	r.Expect(to).To(BeElementOf("us", "asia"), "it had its time")
}

// The same holds if the hub's whole network is down when it begins to lead, for longer than a
// new leader waits.
func TestMembersGetTheirFullTimeAfterAnOutageAtTheHubsStart(t *testing.T) {
	x := watched(t)
	r := &region{fixture: x, dead: map[types.UID]bool{}}
	for _, name := range []string{"eu", "us"} {
		x.register(name, types.UID("uid-"+name), func(mc *v1alpha1.MemberCluster) { mc.Status.AgentVersion = "v1" })
		r.members = append(r.members, types.UID("uid-"+name))
	}
	r.disconnect("eu", "us")
	r.passes(time.Hour)
	r.back("us")
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Wait).To(Equal(r.timings.Unreachable + r.timings.Failover.After))
}

// A member that was lost before the others keeps its remaining time: the outage does not
// count, and does not extend it.
func TestOutageIsNotCountedAgainstAMemberThatWasLostBefore(t *testing.T) {
	r := newRegion(t, "eu", "us")
	r.disconnect("eu")
	r.passes(60 * time.Second)
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Wait).To(Equal(40 * time.Second))
	r.disconnect("us")
	r.passes(time.Hour)
	r.back("us")
	r.Expect(r.FailoverOf("uid-eu").Decide(restarts).Wait).To(Equal(40 * time.Second))
}

// The only other member stops its heartbeats again and again: the sessions of the lost one
// are placed elsewhere nevertheless.
func TestMemberThatFlapsKeepsNoSessionsOfALostOne(t *testing.T) {
	r := newRegion(t, "eu", "us")
	r.disconnect("eu", "us")
	due := 0
	for range 10 {
		r.passes(2 * r.timings.Suspect)
		r.back("us")
		r.passes(2 * r.timings.Suspect)
		due += count(r.FailoverOf("uid-eu").Decide(restarts).Due)
		r.disconnect("us")
	}
	r.Expect(due).To(BeNumerically(">=", 5))
}
