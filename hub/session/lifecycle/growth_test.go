package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// A session that runs is moved to a slot that is free, until the deadline of its member's drain.
func TestSessionsThatRunAreMovedToFreeSlotsOnly(t *testing.T) {
	const here = sessiontest.Here
	drained := func(left time.Duration) func(*Input) {
		return func(in *Input) {
			m := in.Members[here]
			m.Drain = &member.Drain{}
			if left != 0 {
				m.Drain.Deadline = in.Now.Add(left)
			}
			in.Members[here] = m
		}
	}
	unused := func(s *v1alpha1.VDISession) { at := status.Seconds(sessiontest.Now); s.Status.IdleSince = &at }
	rebalanced := func(s *v1alpha1.VDISession) {
		s.Annotations = map[string]string{v1alpha1.AnnotationMove: s.Status.Placement.ClusterName}
	}
	noNode := sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonUnschedulablePod)
	for _, c := range []struct {
		name     string
		in       *Input
		freeOnly bool
		again    time.Duration
	}{
		{"drained without a deadline", inputOf(sessiontest.Ready, ran, unused).with(drained(0)), true, 0},
		{"drained before the deadline", inputOf(sessiontest.Ready, ran, unused).with(drained(time.Minute)), true, time.Minute},
		{"drained after the deadline", inputOf(sessiontest.Ready, ran).with(drained(-time.Minute)), false, 0},
		{"drained, and it has not run yet", inputOf(sessiontest.Created).with(drained(time.Minute)), false, 0},
		{"rebalanced", inputOf(sessiontest.Ready, ran, unused, rebalanced), true, 0},
		{"no node for its Pod", inputOf(sessiontest.Created, noNode).with(func(in *Input) { in.Known.NodeWait = new(time.Duration) }), false, 0},
		{"a new session", inputOf(neverPlaced), false, 0},
		{"its member is lost", inputOf(sessiontest.Ready, ran, restarts).with(lost(here)), false, 0},
		{"it is resumed", inputOf(sessiontest.Ready, idle), false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			p := Next(c.in)
			g.Expect(p.Request).NotTo(BeNil())
			g.Expect(p.Request.Placement.FreeOnly).To(Equal(c.freeOnly))
			if c.again > 0 {
				g.Expect(p.Again).To(Equal(c.again), "then it may use others")
			}
		})
	}
}

func TestARequestHasTheRefusalsOfFreeSlots(t *testing.T) {
	g := NewWithT(t)
	in := inputOf(neverPlaced).with(func(in *Input) {
		in.Known.Excluded = map[types.UID]string{sessiontest.Here: "full", sessiontest.Elsewhere: "full"}
		in.Known.RefusedFree = sets.New(sessiontest.Here, sessiontest.Elsewhere)
		in.Session.Status.Releasing = []v1alpha1.Release{{ClusterName: "us", ClusterUID: sessiontest.Elsewhere, Epoch: 1, Superseded: true}}
	})
	p := newPass(in)
	g.Expect(resolve(p)).To(Equal(proceed))
	req := p.request(nil)
	g.Expect(req.Refused).To(HaveLen(2))
	g.Expect(req.RefusedFree).To(Equal(sets.New(sessiontest.Here)), "nothing of it may be placed where it is not confirmed as stopped")
	g.Expect(in.Known.RefusedFree).To(HaveLen(2), "the input is not changed")
}

// The order of a session on a new node permits the member to add one, also after a change of leader.
func TestConditionScheduledShowsThatANodeMayBeAdded(t *testing.T) {
	g := NewWithT(t)
	in := inputOf(neverPlaced).with(fits(sessiontest.Here))
	g.Expect(status.MayAddNode(Next(in).Session)).To(BeFalse())
	in.Answer.Reason, in.Answer.Kind = v1alpha1.ReasonPlacedOnNewNode, placement.Growable
	p := Next(in)
	g.Expect(status.MayAddNode(p.Session)).To(BeTrue())
	g.Expect(p.Decision.Kind).To(Equal(placement.Growable), "which the metric counts")
}
