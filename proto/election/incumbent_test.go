package election

import (
	"errors"
	"testing"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// incumbent is the lock of one replica on a clock that the test moves. lost are the
// holders that it has lost the lock to.
type incumbent struct {
	resourcelock.Interface
	leadership *Leadership
	inner      *fakeLock
	lost       []string
}

func newIncumbent() *incumbent {
	leadership, inner, _ := watched()
	i := &incumbent{leadership: leadership, inner: inner}
	i.Interface = leadership.Incumbent(inner, IncumbentOptions{
		Duration: 15 * time.Second, Lost: func(holder string) { i.lost = append(i.lost, holder) },
	})
	return i
}

// raw is what the elector compares.
func (i *incumbent) raw(t *testing.T) string {
	t.Helper()
	_, raw, err := i.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func (i *incumbent) leads(t *testing.T) {
	t.Helper()
	if err := i.Update(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "us", LeaseDurationSeconds: int(IncumbentLeaseDuration / time.Second)}); err != nil {
		t.Fatal(err)
	}
}

func TestAnIncumbentIsNotCertainDuringAnOutageAndIsAgainAfterIt(t *testing.T) {
	i := newIncumbent()
	i.leads(t)
	expect(t, i.leadership, true)
	i.inner.fails = errors.New("connection refused")
	for range 300 { // ten minutes
		*i.inner.clock += 2 * time.Second
		if err := i.Update(t.Context(), heldBy("us")); err == nil {
			t.Fatal("the elector gets no error")
		}
		if _, _, err := i.Get(t.Context()); err == nil {
			t.Fatal("the elector gets no error")
		}
	}
	expect(t, i.leadership, false)
	i.inner.fails = nil
	i.leads(t)
	expect(t, i.leadership, true)
	if len(i.lost) > 0 {
		t.Errorf("it gave the lead up to %v, who never had it", i.lost)
	}
}

func TestTheOthersReadTheShortDuration(t *testing.T) {
	i := newIncumbent()
	recorded := 0
	i.inner.during = func() { recorded = i.inner.written.LeaseDurationSeconds }
	i.leads(t)
	if recorded != 15 {
		t.Errorf("the others wait for %d s", recorded)
	}
	// Whoever releases the lock lets the next one take it at once.
	if err := i.Update(t.Context(), resourcelock.LeaderElectionRecord{LeaseDurationSeconds: 1}); err != nil {
		t.Fatal(err)
	}
	if recorded != 1 {
		t.Errorf("a released lock lasts %d s", recorded)
	}
}

func TestAnIncumbentLearnsThatAnotherHasTakenTheLock(t *testing.T) {
	i := newIncumbent()
	i.inner.holder = "another"
	i.raw(t)
	if len(i.lost) > 0 {
		t.Error("a replica that waits has nothing to lose")
	}
	i.leads(t)
	i.inner.holder = "" // released by hand: it may be taken again
	i.raw(t)
	if len(i.lost) > 0 {
		t.Error("it ended for a free lock")
	}
	i.leads(t)
	i.inner.holder = "another"
	i.raw(t)
	i.raw(t)
	if len(i.lost) != 1 || i.lost[0] != "another" {
		t.Errorf("lost to %q", i.lost)
	}
	expect(t, i.leadership, false)
}

func TestAnOutageMakesTheOthersCountAnew(t *testing.T) {
	for _, test := range []struct {
		name string
		// fails is for how long no read succeeds, after that long without one.
		fails, slow time.Duration
		again       bool
	}{
		{name: "a server that answers", again: false},
		{name: "a server that answers late", slow: time.Minute, again: false},
		{name: "one request that fails", fails: 4 * time.Second, again: false},
		{name: "an outage", fails: 8 * time.Second, again: true},
		{name: "a long outage", fails: time.Hour, again: true},
	} {
		i := newIncumbent()
		i.inner.holder = "the leader"
		before := i.raw(t)
		*i.inner.clock += test.slow
		if test.fails > 0 {
			i.inner.fails = errors.New("connection refused")
			if _, _, err := i.Get(t.Context()); err == nil {
				t.Fatal("the elector gets no error")
			}
			*i.inner.clock += test.fails
			i.inner.fails = nil
		}
		if again := i.raw(t) != before; again != test.again {
			t.Errorf("%s: the duration is counted again: %v", test.name, again)
		}
		after := i.raw(t)
		*i.inner.clock += 2 * time.Second
		if i.raw(t) != after {
			t.Errorf("%s: the duration is counted again for ever", test.name)
		}
	}
}
