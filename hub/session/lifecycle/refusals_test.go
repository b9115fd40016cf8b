package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestSessionThatPausesShowsWhy(t *testing.T) {
	g := NewWithT(t)
	in := Input{Session: sessiontest.With()}
	in.Known.Refused = map[types.UID]string{sessiontest.Here: "NoCapacity: full", sessiontest.Elsewhere: "Invalid: bad"}
	p := newPass(&in)
	g.Expect(pauses(p)).To(BeFalse())
	g.Expect(p.Waits).To(BeEmpty())

	in.Known.Pause = time.Second
	g.Expect(pauses(p)).To(BeTrue())
	g.Expect(p.Waits).To(Equal(v1alpha1.ReasonRefused))
	g.Expect(p.Again).To(Equal(time.Second))
	c := meta.FindStatusCondition(p.Session.Status.Conditions, v1alpha1.ConditionScheduled)
	g.Expect(c).To(And(HaveField("Reason", v1alpha1.ReasonRefused), HaveField("Message", "refused: Invalid: bad; NoCapacity: full; it is retried after a pause")))

	c.Message = "eu refused it: Invalid: bad; and so on"
	pauses(p)
	g.Expect(c.Message).To(Equal("eu refused it: Invalid: bad; and so on"), "what the refusal showed is not overwritten")
}
