package boottime

import (
	"testing"
	"time"
)

func TestNowRuns(t *testing.T) {
	before := Now()
	<-time.After(time.Millisecond)
	if elapsed := Now() - before; elapsed < time.Millisecond {
		t.Errorf("%s passed in a millisecond", elapsed)
	}
}

func TestTheIDIsThatOfTheBoot(t *testing.T) {
	first, err := ID()
	if err != nil || first == "" {
		t.Fatalf("%q, %v", first, err)
	}
	if second, err := ID(); second != first || err != nil {
		t.Errorf("%q, %v, and %q before", second, err, first)
	}
}
