package backoff

import (
	"testing"
	"time"
)

func TestThePaceDropsOldEntries(t *testing.T) {
	t.Parallel()
	var p Pace[int]
	begin := time.Unix(0, 0)
	for i := range 1000 {
		p.Took(i, begin.Add(time.Duration(i)*time.Second), 10*time.Second)
		if wait := p.Wait(i, begin.Add(time.Duration(i+4)*time.Second)); wait != 6*time.Second {
			t.Fatalf("the next is due in %s, want 6s", wait)
		}
	}
	if len(p.due) > 10 {
		t.Errorf("%d keys are remembered, want at most 10", len(p.due))
	}
	if wait := p.Wait(1000, begin); wait != 0 {
		t.Errorf("a key that was never taken is due in %s", wait)
	}
	if p.Forget(999); p.Wait(999, begin) != 0 {
		t.Error("a key that was forgotten is not due")
	}
}
