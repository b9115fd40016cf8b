package session

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func due(reason string) failover.Verdict {
	return failover.Verdict{Due: true, Reason: reason, Message: "member eu is gone"}
}

// lostInMemory returns a hub whose session ran in "eu", which is lost, and has capacity
// in "us". It may be rescheduled if its mode is Restart.
func lostInMemory(t *testing.T, change ...func(*v1alpha1.VDISession)) *hubInMemory {
	t.Helper()
	h := newHubInMemory(t)
	h.Clock = clocktesting.NewFakePassiveClock(sessiontest.Now.Truncate(time.Second))
	h.pass()
	h.fleet.other, h.fleet.away = true, true
	h.edit(func(s *v1alpha1.VDISession) {
		at := metav1.NewTime(sessiontest.Now.Truncate(time.Second).Add(-time.Hour))
		s.Status.Placement = &v1alpha1.Placement{ClusterName: "eu", ClusterUID: sessiontest.Here, Region: "europe", Epoch: 1, Run: 1, PlacementTime: at}
		s.Status.StartTime, s.Status.RunningSince, s.Status.URL = &at, &at, "https://old"
		sessiontest.Condition(v1alpha1.ConditionAssigned, sessiontest.Yes, v1alpha1.ReasonStored)(s)
		for _, name := range status.AgentConditions {
			sessiontest.Condition(name, sessiontest.Yes, v1alpha1.ReasonPodReady)(s)
		}
		for _, f := range change {
			f(s)
		}
	})
	h.fleet.verdict = func(s failover.Session) failover.Verdict {
		if s.Mode == v1alpha1.FailoverRestart {
			return due(v1alpha1.ReasonMemberUnreachable)
		}
		return failover.Verdict{Reason: v1alpha1.ReasonMemberUnreachable, Message: "with mode Hold it stays"}
	}
	h.events()
	h.fleet.placed = nil
	return h
}

func fenced(failover.Session) failover.Verdict { return due(v1alpha1.ReasonMemberFenced) }

func TestSessionOfALostMemberIsRescheduledInOneWrite(t *testing.T) {
	h := lostInMemory(t)
	before := h.stored()
	_, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	s := h.stored()
	h.Expect(s.Status.Placement.ClusterName).To(Equal("us"))
	h.Expect(s.Status.Placement.Epoch).To(Equal(int64(2)))
	h.Expect(s.Status.Placement.FailoverMode).To(Equal(v1alpha1.FailoverRestart))
	h.Expect(s.Status.Epoch).To(Equal(int64(2)))
	h.Expect(s.Status.Releasing).To(Equal([]v1alpha1.Release{{ClusterName: "eu", ClusterUID: sessiontest.Here, Epoch: 1, Superseded: true}}))
	f := s.Status.LastFailover
	h.Expect(f).To(HaveField("From", "eu"))
	h.Expect(f).To(HaveField("FromRegion", "europe"))
	h.Expect(f).To(HaveField("FromEpoch", int64(1)))
	h.Expect(f).To(HaveField("Reason", v1alpha1.ReasonMemberUnreachable))
	h.Expect(f.LostTime.Time).To(BeTemporally("~", sessiontest.Now.Add(-time.Minute), time.Second))
	h.Expect(f.RecoveredTime).To(BeNil())
	h.Expect(s.Status.TimeUsed).To(Equal(v1alpha1.DurationOf(h.fleet.State(sessiontest.Here).LastHeartbeat.Sub(before.Status.RunningSince.Time)+time.Millisecond-time.Nanosecond)),
		"its time does not count while it is unknown whether it ran")
	h.Expect(s.Status.URL).To(HavePrefix("https://mine-"))
	h.Expect(s.Status.URL).To(HaveSuffix(".of-" + string(sessiontest.Elsewhere) + ".example.com"))
	h.Expect(h.condition(v1alpha1.ConditionPodReady)).To(BeEmpty())
	h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseCreating))
	h.Expect(h.fleet.refused).To(HaveKey(sessiontest.Here))
	h.Expect(h.events()).To(Equal([]string{v1alpha1.EventFailedOver}))
	h.pass() // and nothing more
	h.Expect(h.fleet.placed).To(Equal([]int64{2}))
	h.Expect(h.events()).To(BeEmpty())
}

func TestSessionOfALostMemberWaits(t *testing.T) {
	waiting := func(message string) func(failover.Session) failover.Verdict {
		return func(failover.Session) failover.Verdict {
			return failover.Verdict{Reason: v1alpha1.ReasonMemberUnreachable, Message: message, Wait: time.Minute}
		}
	}
	t.Run("for its time", func(t *testing.T) {
		h := lostInMemory(t)
		h.fleet.verdict = waiting("it is rescheduled at ten")
		result, err := h.reconcile()
		h.Expect(err).NotTo(HaveOccurred())
		h.Expect(result.RequeueAfter).To(Equal(time.Minute))
		s := h.pass()
		h.Expect(s.Status.Placement.ClusterName).To(Equal("eu"))
		h.Expect(h.condition(v1alpha1.ConditionReady)).To(Equal("Unknown/FailoverPending: it is rescheduled at ten"))
		h.Expect(h.condition(v1alpha1.ConditionPodReady)).To(HavePrefix("Unknown/MemberUnreachable"))
		h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseRunning))
		h.Expect(h.events()).To(ConsistOf(v1alpha1.EventFailoverPending, v1alpha1.EventUnreached))
		h.Expect(h.memory.CountLost()).To(Equal(1))
		h.fleet.verdict = waiting("it is rescheduled at eleven")
		h.pass()
		h.Expect(h.events()).To(BeEmpty(), "that is reported once")
	})
	t.Run("for capacity, and may use the headroom", func(t *testing.T) {
		h := lostInMemory(t)
		h.fleet.nowhere = true
		h.pass()
		h.Expect(h.condition(v1alpha1.ConditionReady)).To(Equal("Unknown/FailoverPending: member eu is gone, and no other member accepts the session now: 2 clusters: 2 lack cpu"))
		all := func(*scheduling.Request) bool { return true }
		h.Expect(h.Scheduler.Pending(func(r *scheduling.Request) bool { return r.Placement.Failover })).To(HaveLen(1))
		h.fleet.nowhere = false
		h.Expect(h.pass().Status.Placement.ClusterName).To(Equal("us"))
		h.Expect(h.Scheduler.Pending(all)).To(BeEmpty())
		h.Expect(h.memory.CountLost()).To(BeZero())
	})
	t.Run("for the rate limit, without a write for each request", func(t *testing.T) {
		h := lostInMemory(t)
		h.fleet.verdict = waiting("soon")
		h.pass()
		h.events()
		h.fleet.verdict = func(failover.Session) failover.Verdict {
			v := due(v1alpha1.ReasonMemberUnreachable)
			v.Wait = time.Second
			return v
		}
		before := h.stored().ResourceVersion
		result, err := h.reconcile()
		h.Expect(err).NotTo(HaveOccurred())
		h.Expect(result.RequeueAfter).To(Equal(time.Second))
		h.Expect(h.stored().ResourceVersion).To(Equal(before))
	})
	t.Run("and was not ready", func(t *testing.T) {
		h := lostInMemory(t, sessiontest.Condition(v1alpha1.ConditionPodReady, sessiontest.No, v1alpha1.ReasonCrashLoop))
		h.fleet.verdict = waiting("soon")
		s := h.pass()
		h.Expect(h.condition(v1alpha1.ConditionReady)).To(Equal("False/FailoverPending: soon"))
		h.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseCreating))
	})
}

func TestLostSessionByItsMode(t *testing.T) {
	mode := func(m v1alpha1.FailoverMode) func(*v1alpha1.VDISession) {
		return func(s *v1alpha1.VDISession) { s.Spec.Failover.Mode = m }
	}
	idle := func(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true }
	for _, c := range []struct {
		name    string
		change  []func(*v1alpha1.VDISession)
		verdict func(failover.Session) failover.Verdict
		// at is the member where it is placed then, or empty, and phase its phase.
		at    string
		phase v1alpha1.SessionPhase
	}{
		{"Restart is rescheduled", nil, nil, "us", v1alpha1.PhaseCreating},
		{"Hold stays", []func(*v1alpha1.VDISession){mode(v1alpha1.FailoverHold)}, nil, "eu", v1alpha1.PhaseRunning},
		{"Hold is rescheduled from a fenced member", []func(*v1alpha1.VDISession){mode(v1alpha1.FailoverHold)}, fenced, "us", v1alpha1.PhaseCreating},
		{"suspended, it is released", []func(*v1alpha1.VDISession){suspended, idle}, nil, "", v1alpha1.PhasePending},
		{"about to be suspended, it is released", []func(*v1alpha1.VDISession){suspended}, nil, "", v1alpha1.PhasePending},
		{"suspended with Hold it stays", []func(*v1alpha1.VDISession){suspended, idle, mode(v1alpha1.FailoverHold)}, nil, "eu", v1alpha1.PhasePending},
		{"to be resumed, it is rescheduled", []func(*v1alpha1.VDISession){idle}, nil, "us", v1alpha1.PhaseCreating},
		{"failed, it stays", []func(*v1alpha1.VDISession){hasFailed, idle}, nil, "eu", v1alpha1.PhaseFailed},
		{"failed, it is released in a fenced member, and not retried", []func(*v1alpha1.VDISession){hasFailed, idle}, fenced, "", v1alpha1.PhasePending},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := lostInMemory(t, c.change...)
			if c.verdict != nil {
				h.fleet.verdict = c.verdict
			}
			s := h.pass()
			at := ""
			if s.Status.Placement != nil {
				at = s.Status.Placement.ClusterName
			}
			h.Expect(at).To(Equal(c.at))
			h.Expect(s.Status.Phase).To(Equal(c.phase), s.Status.Message)
			if at == "eu" {
				h.Expect(s.Status.Releasing).To(BeEmpty())
				h.Expect(s.Status.Epoch).To(Equal(int64(1)))
			} else {
				h.Expect(s.Status.Releasing).To(ConsistOf(HaveField("Superseded", true)))
			}
		})
	}
}

func TestSessionThatWasReleasedWhileSuspendedRunsElsewhere(t *testing.T) {
	h := lostInMemory(t, suspended)
	h.Expect(h.pass().Status.Placement).To(BeNil())
	h.edit(toBeResumed)
	s := h.pass()
	h.Expect(s.Status.Placement.ClusterName).To(Equal("us"))
	h.Expect(s.Status.Placement.Epoch).To(Equal(int64(2)))
	h.Expect(h.fleet.refused).To(HaveKey(sessiontest.Here), "something of it may still run there")
	h.Expect(s.Status.Releasing).To(HaveLen(1))
}

func TestSessionThatFailedIsRetriedElsewhereWhenRequested(t *testing.T) {
	h := lostInMemory(t, hasFailed, func(s *v1alpha1.VDISession) { s.Status.Placement.Idle = true })
	h.fleet.verdict = fenced
	h.Expect(h.pass().Status.Placement).To(BeNil())
	h.edit(func(s *v1alpha1.VDISession) { s.Spec.Attempt++ })
	h.Expect(h.pass().Status.Placement.ClusterName).To(Equal("us"))
	h.Expect(h.condition(v1alpha1.ConditionProgressing)).To(BeEmpty())
}

func TestFailoverRequestHasTheModeInForce(t *testing.T) {
	h := lostInMemory(t, func(s *v1alpha1.VDISession) {
		s.Spec.Failover = v1alpha1.SessionFailover{Mode: v1alpha1.FailoverFence, After: "7s"}
		s.Status.Placement.FailoverMode, s.Status.Placement.Guarded = v1alpha1.FailoverFence, true
	})
	h.fleet.verdict = func(failover.Session) failover.Verdict { return due(v1alpha1.ReasonMemberUnreachable) }
	h.pass()
	after := 7 * time.Second
	h.Expect(h.fleet.requested).To(Equal(failover.Session{Mode: v1alpha1.FailoverFence, After: &after, Guarded: true}))
	at := h.stored().Status.Placement
	h.Expect(at.FailoverMode).To(Equal(v1alpha1.FailoverFence))
	h.Expect(at.Guarded).To(BeFalse(), "it is not reported of the new placement")
	h.Expect(at.Lapse).To(BeZero())
}

func TestHomeThatIsLeftBehind(t *testing.T) {
	h := lostInMemory(t, func(s *v1alpha1.VDISession) {
		s.Status.Home = &v1alpha1.SessionHome{ClusterName: "eu", ClusterUID: sessiontest.Here, ClaimName: "claim"}
	})
	h.Expect(h.pass().Status.Placement.ClusterName).To(Equal("eu"), "with a home it is held")
	h.fleet.verdict = fenced
	s := h.pass()
	h.Expect(s.Status.Placement.ClusterName).To(Equal("us"))
	h.Expect(s.Status.Releasing[0].HomeClaimName).To(Equal("claim"))
}

func TestWriteOfAFailoverThatIsRejectedReleasesItsCapacity(t *testing.T) {
	h := lostInMemory(t)
	h.answer = apierrors.NewConflict(schema.GroupResource{Resource: "vdisessions"}, "mine", errors.New("changed"))
	_, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred(), "that is how the lock is meant to work")
	h.Expect(h.fleet.released).To(Equal(1))
	h.Expect(h.stored().Status.Placement.ClusterName).To(Equal("eu"))
	h.Expect(h.events()).To(BeEmpty())
}

func TestStopThatALostMemberCannotConfirm(t *testing.T) {
	leftBehind := func(s *v1alpha1.VDISession) {
		s.Status.Placement = nil
		s.Status.Releasing = []v1alpha1.Release{{ClusterName: "eu", ClusterUID: sessiontest.Here, Epoch: 1, Policy: "p"}}
	}
	t.Run("is not waited for by Restart", func(t *testing.T) {
		h := lostInMemory(t, leftBehind)
		s := h.pass()
		h.Expect(s.Status.Placement.ClusterName).To(Equal("us"))
		h.Expect(s.Status.Releasing).To(Equal([]v1alpha1.Release{{ClusterName: "eu", ClusterUID: sessiontest.Here, Epoch: 1, Superseded: true}}))
		h.Expect(h.fleet.refused).To(HaveKey(sessiontest.Here))
	})
	t.Run("is waited for by Fence and by Hold, which show why", func(t *testing.T) {
		for _, mode := range []v1alpha1.FailoverMode{v1alpha1.FailoverFence, v1alpha1.FailoverHold} {
			h := lostInMemory(t, leftBehind, func(s *v1alpha1.VDISession) { s.Spec.Failover.Mode = mode })
			s := h.pass()
			h.Expect(s.Status.Placement).To(BeNil())
			h.Expect(s.Status.Message).To(Equal("waiting until eu has confirmed that nothing of it runs: with mode Hold it stays"))
			h.fleet.verdict = fenced
			h.Expect(h.pass().Status.Placement.ClusterName).To(Equal("us"))
		}
	})
	t.Run("is forgotten once the member is removed", func(t *testing.T) {
		h := lostInMemory(t, leftBehind)
		h.fleet.gone = map[types.UID]bool{sessiontest.Here: true}
		h.Expect(h.pass().Status.Releasing).To(BeEmpty())
	})
}

func TestWhatOnceWasLeftBehindCountsForNoPolicy(t *testing.T) {
	h := lostInMemory(t, func(s *v1alpha1.VDISession) { s.Status.Placement.Policy = "gold" })
	h.Expect(h.pass().Status.Releasing[0].Policy).To(BeEmpty(), "a session counts once for a policy's caps: where it is placed")
}

func TestAffirmationAndFailoverExcludeEachOther(t *testing.T) {
	fence := func(s *v1alpha1.VDISession) {
		s.Spec.Failover.Mode = v1alpha1.FailoverFence
		s.Status.Placement.FailoverMode, s.Status.Placement.Guarded = v1alpha1.FailoverFence, true
	}
	whatever := func(failover.Session) failover.Verdict { return due(v1alpha1.ReasonMemberUnreachable) }
	affirm := func(h *hubInMemory, seen *v1alpha1.VDISession) error {
		after := seen.DeepCopy()
		after.Status.Placement.Lapse = 1
		return h.writer().status(context.Background(), seen, after)
	}
	t.Run("rescheduled first", func(t *testing.T) {
		h := lostInMemory(t, fence)
		h.fleet.verdict = whatever
		seen := h.stored()
		h.Expect(h.pass().Status.Placement.ClusterName).To(Equal("us"))
		h.Expect(apierrors.IsConflict(affirm(h, seen))).To(BeTrue())
		h.Expect(h.stored().Status.Placement.Lapse).To(BeZero())
	})
	t.Run("affirmed first", func(t *testing.T) {
		h := lostInMemory(t, fence)
		h.fleet.verdict = whatever
		h.cached = h.stored()
		another := &Reconciler{Client: h.api, Clock: h.Clock, Orders: h.Orders} // another leader: this one has no record of it
		after := h.stored()
		after.Status.Placement.Lapse = 1
		h.Expect(another.writer().status(context.Background(), h.stored(), after)).To(Succeed())
		_, err := h.reconcile()
		h.Expect(err).NotTo(HaveOccurred(), "that is how the lock is meant to work")
		h.Expect(h.stored().Status.Placement.ClusterName).To(Equal("eu"))
		h.Expect(h.fleet.released).To(Equal(1))
	})
}

// A copy that is being stopped keeps the failover mode that it was placed with,
// whatever the mode of the session's next placement would be.
func TestReleasedCopyKeepsItsFailoverMode(t *testing.T) {
	for _, c := range []struct {
		name         string
		placed, spec v1alpha1.FailoverMode
		superseded   bool
	}{
		{"placed with Hold by a policy that has Restart now", v1alpha1.FailoverHold, "", false},
		{"placed with Restart", v1alpha1.FailoverRestart, "", true},
		{"placed by a hub that did not record it", "", "", true},
		{"the session itself has Restart now", v1alpha1.FailoverHold, v1alpha1.FailoverRestart, true},
		{"the session itself has Hold now", v1alpha1.FailoverRestart, v1alpha1.FailoverHold, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := lostInMemory(t, func(s *v1alpha1.VDISession) {
				s.Status.Placement.FailoverMode = c.placed
				at := s.Status.Placement
				s.Status.Releasing = []v1alpha1.Release{{ClusterName: at.ClusterName, ClusterUID: at.ClusterUID, Epoch: at.Epoch, FailoverMode: at.FailoverMode}}
				s.Status.Placement = nil
				s.Spec.Failover.Mode = c.spec
			})
			s := h.pass()
			h.Expect(s.Status.Releasing).To(ConsistOf(HaveField("Superseded", c.superseded)))
			h.Expect(s.Status.Placement != nil).To(Equal(c.superseded), "it is rescheduled only if the stop is not waited for")
		})
	}
}

func TestModeFollowsTheSession(t *testing.T) {
	h := newHubInMemory(t)
	h.Expect(h.pass().Status.Placement.FailoverMode).To(Equal(v1alpha1.FailoverRestart))
	h.edit(func(s *v1alpha1.VDISession) {
		s.Spec.Failover.Mode, s.Status.Placement.Guarded = v1alpha1.FailoverFence, true
	})
	at := h.pass().Status.Placement
	h.Expect(at.FailoverMode).To(Equal(v1alpha1.FailoverFence))
	h.Expect(at.Guarded).To(BeFalse(), "that was reported for another mode")
	h.Expect(assignment.Render(h.stored(), &v1alpha1.TemplateSpec{}, "example.com", secret.Set{}).Spec.FailoverMode).To(Equal(v1alpha1.FailoverFence))
	h.edit(func(s *v1alpha1.VDISession) { s.Spec.Failover.Mode = ""; s.Generation++ })
	h.Expect(h.pass().Status.Placement.FailoverMode).To(Equal(v1alpha1.FailoverRestart))
}
