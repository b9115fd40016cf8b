package capacity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestResourcesAreReadFromTheWire(t *testing.T) {
	got, err := resourcesFromWire(map[string]string{"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "1"})
	if want := (Resources{"cpu": 1500, "memory": 2 * gi, gpu: 1}); err != nil || !cmp.Equal(want, got) {
		t.Errorf("got %v, %v", got, err)
	}
}
