package convert

import (
	"testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// The hub attributes the status of a report to the spec with its hash.
func TestStatusOfAnEarlierSpecHasNoGenerationOnTheWire(t *testing.T) {
	for _, c := range []struct{ generation, observed, want int64 }{
		{3, 3, 3},
		{3, 2, 0},
		{0, 2, 2}, // of an object that no API server has numbered
	} {
		a := &v1alpha1.SessionAssignment{}
		a.Generation, a.Status.ObservedGeneration = c.generation, c.observed
		if got := ReportToWire(a).GetStatus().GetObservedGeneration(); got != c.want {
			t.Errorf("of %d, observed %d: got %d, want %d", c.generation, c.observed, got, c.want)
		}
	}
}
