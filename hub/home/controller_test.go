package home

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// setForward is a clock whose wall clock was set forward since the process began.
type setForward struct {
	*clocktesting.FakePassiveClock
	by time.Duration
}

func (c *setForward) Now() time.Time { return c.FakePassiveClock.Now().Add(c.by) }

func TestRecordsOutliveAClockThatIsSetForward(t *testing.T) {
	c := &setForward{FakePassiveClock: clocktesting.NewFakePassiveClock(sessiontest.Now)}
	r := &Reconciler{Clock: c}
	g := NewWithT(t)
	g.Expect(r.now()).To(BeTemporally("==", sessiontest.Now))
	c.by = time.Hour
	g.Expect(r.now()).To(BeTemporally("==", sessiontest.Now))
	c.SetTime(sessiontest.Now.Add(time.Minute))
	g.Expect(r.now()).To(BeTemporally("==", sessiontest.Now.Add(time.Minute)))
	c.by = -time.Hour
	g.Expect(r.now()).To(BeTemporally("==", sessiontest.Now.Add(time.Minute-time.Hour)), "set back: it is kept for longer")
}
