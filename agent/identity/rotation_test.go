package identity

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

const h = time.Hour

func TestWhenACertificateIsDue(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name     string
		issued   time.Time
		lifetime time.Duration
		random   float64
		want     time.Duration
	}{
		{"fresh, earliest", now, 24 * h, 0, 12 * h},
		{"fresh, latest", now, 24 * h, 0.999999, 19*h + 12*time.Minute},
		{"fresh, in between", now, 24 * h, 0.5, 15*h + 36*time.Minute},
		{"half its life", now.Add(-12 * h), 24 * h, 0.5, 3*h + 36*time.Minute},
		{"overdue", now.Add(-20 * h), 24 * h, 0.5, 0},
		{"expired", now.Add(-25 * h), 24 * h, 0.5, 0},
		{"the clock was set back a day", now.Add(23 * h), 24 * h, 0.5, 0},
		{"the clock was set ahead a year", now.Add(-365 * 24 * h), 24 * h, 0.5, 0},
		{"an unknown time", time.Time{}, 24 * h, 0.5, 0},
		{"a demonstration's", now.Add(-4 * time.Minute), 10 * time.Minute, 0, time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := max(rotationAge(tc.lifetime, tc.random)-ageByWall(tc.issued, now, tc.lifetime), 0)
			NewWithT(t).Expect(got).To(BeNumerically("~", tc.want, time.Second))
		})
	}
}

func TestPausesGrowAndStayFractionsOfTheLifetime(t *testing.T) {
	g := NewWithT(t)
	before := time.Duration(0)
	for failures := 1; failures < 30; failures++ {
		least, most := retryDelay(failures, 24*h, 0), retryDelay(failures, 24*h, 0.999999)
		g.Expect(least).To(BeNumerically(">=", before))
		g.Expect(most).To(BeNumerically("~", 2*least, time.Second), "half is left to chance")
		before = least
	}
	g.Expect(retryDelay(1, 24*h, 0.999999)).To(BeNumerically("~", 43*time.Second, time.Second))
	g.Expect(retryDelay(30, 24*h, 0.999999)).To(BeNumerically("~", 1728*time.Second, time.Second))
	g.Expect(retryDelay(30, 24*time.Second, 0)).To(BeNumerically("~", 240*time.Millisecond, time.Millisecond))
}

func TestARotationIsDueByElapsedTimeWhateverTheWallClockShows(t *testing.T) {
	g := NewWithT(t)
	m := newMember(t, startHub(t))
	k := m.start()
	g.Expect(connect(k)).To(Succeed())
	k.step(t.Context())
	for _, jump := range []time.Duration{24 * h, -48 * h, 24 * 365 * h} {
		m.now.wall = m.now.wall.Add(jump)
		k.step(t.Context())
		g.Expect(k.state.next).To(BeNil(), "the clock jumped by %s", jump)
	}
	m.now.boot += 15 * h
	g.Expect(k.step(t.Context())).To(BeNumerically("<=", 15*time.Minute), "it checks again soon, for a timer may stand still")
	g.Expect(k.state.next).To(BeNil(), "not due before 15.6 hours")
	m.now.boot += h
	k.step(t.Context())
	g.Expect(k.state.next).NotTo(BeNil())
}

func TestANewProcessRotatesACertificateFromTheFutureAtOnce(t *testing.T) {
	g := NewWithT(t)
	m := newMember(t, startHub(t))
	k := m.start()
	g.Expect(connect(k)).To(Succeed())
	k.step(t.Context())
	drop(k)
	m.pass(h)
	k = m.start()
	g.Expect(connect(k)).To(Succeed())
	k.step(t.Context())
	g.Expect(k.state.next).To(BeNil(), "an hour old")
	drop(k)
	m.now.wall = m.now.wall.Add(-5 * h)
	k = m.start()
	g.Expect(connect(k)).To(Succeed())
	k.step(t.Context())
	g.Expect(k.state.next).NotTo(BeNil(), "issued in the future")
}

func TestAnAgentThatIsNotConnectedDoesNotRotate(t *testing.T) {
	g := NewWithT(t)
	m := newMember(t, startHub(t))
	k := m.start()
	g.Expect(connect(k)).To(Succeed())
	k.step(t.Context())
	drop(k)
	m.pass(23 * h)
	k.step(t.Context())
	g.Expect(k.state.pending).To(BeNil(), "a copy of the agent must not take the identity over")
}
