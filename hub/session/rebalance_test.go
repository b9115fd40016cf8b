package session

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func toBeRebalanced(s *v1alpha1.VDISession) {
	s.Annotations = map[string]string{v1alpha1.AnnotationMove: "eu"}
}

func TestSessionThatIsToBeRebalancedIsMovedIfItIsIdle(t *testing.T) {
	h, _ := placedInMemory(t)
	h.fleet.other = true
	h.edit(idle)
	h.edit(toBeRebalanced)
	s := h.pass()
	h.Expect(s.Status.Placement).To(BeNil())
	h.Expect(h.events()).To(Equal([]string{v1alpha1.EventMoved}))
	h.Expect(h.memory.Known(s, h.Clock.Now(), h.fleet.ReportedAt).Excluded).To(HaveKeyWithValue(sessiontest.Here, memory.MovedOut))
	h.Expect(s.Annotations).To(HaveKey(v1alpha1.AnnotationMove))

	h.edit(func(s *v1alpha1.VDISession) { s.Status.Releasing = nil })
	_, err := h.reconcile()
	h.Expect(err).NotTo(HaveOccurred())
	h.Expect(h.fleet.refused).To(HaveKeyWithValue(sessiontest.Here, memory.MovedOut), "it does not return at once")
	s = h.pass()
	h.Expect(s.Status.Placement.ClusterName).To(Equal("us"))
	h.Expect(s.Annotations).NotTo(HaveKey(v1alpha1.AnnotationMove), "that is done")
	h.Expect(h.events()).To(BeEmpty(), "the event of the move names its new member")
}

func TestSessionThatIsToBeRebalancedAndStaysShowsWhy(t *testing.T) {
	for name, why := range map[string]func(*hubInMemory){
		"in use":                func(h *hubInMemory) { h.edit(func(s *v1alpha1.VDISession) { s.Status.IdleSince = nil }) },
		"no capacity elsewhere": func(h *hubInMemory) { h.fleet.nowhere = true },
		"its member is away":    func(h *hubInMemory) { h.fleet.away = true },
		"it has failed":         func(h *hubInMemory) { h.edit(hasFailed) },
		"where its home is": func(h *hubInMemory) {
			h.edit(func(s *v1alpha1.VDISession) { s.Status.Home = &v1alpha1.SessionHome{ClusterUID: sessiontest.Here} })
		},
		"annotated for another member": func(h *hubInMemory) {
			h.edit(func(s *v1alpha1.VDISession) { s.Annotations[v1alpha1.AnnotationMove] = "us" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, clock := placedInMemory(t)
			clock.SetTime(clock.Now().Add(time.Minute))
			h.fleet.other = true
			h.edit(func(s *v1alpha1.VDISession) {
				idle(s)
				toBeRebalanced(s)
				s.Status.StartTime = s.Status.RunningSince.DeepCopy()
			})
			why(h)
			_, err := h.reconcile()
			h.Expect(err).NotTo(HaveOccurred())
			s := h.pass()
			h.Expect(s.Status.Placement.ClusterName).To(Equal("eu"))
			h.Expect(s.Annotations).NotTo(HaveKey(v1alpha1.AnnotationMove))
			events := 0
			for _, reason := range h.events() {
				if reason == v1alpha1.EventNotMoved {
					events++
				}
			}
			if name == "annotated for another member" {
				h.Expect(events).To(BeZero())
			} else {
				h.Expect(events).To(Equal(1))
			}
		})
	}
}
