package convert

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

func TestMalformedBuffersAreSkipped(t *testing.T) {
	none, most := &fleetv1.Buffer{Template: "none"}, &fleetv1.Buffer{Template: "browser", Revision: "r1", Slots: 10_000}
	if got, err := CheckedBuffers([]*fleetv1.Buffer{none, most}); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
	for name, tc := range map[string]struct {
		bad  *fleetv1.Buffer
		want string
	}{
		"no template":       {&fleetv1.Buffer{Slots: 1}, "template: missing"},
		"a bad template":    {&fleetv1.Buffer{Template: "a b"}, "template:"},
		"the same template": {&fleetv1.Buffer{Template: "none", Slots: 2}, "template: it is that of another"},
		"a bad revision":    {&fleetv1.Buffer{Template: "a", Revision: "r\n1"}, "revision:"},
		"a long revision":   {&fleetv1.Buffer{Template: "a", Revision: strings.Repeat("r", 200)}, "revision:"},
		"negative":          {&fleetv1.Buffer{Template: "a", Slots: -1}, "slots: -1 is negative"},
		"too many slots":    {&fleetv1.Buffer{Template: "a", Slots: 10_001}, "slots: 10001, more than"},
	} {
		got, err := CheckedBuffers([]*fleetv1.Buffer{none, tc.bad})
		if err == nil || !strings.Contains(err.Error(), tc.want) || len(got) != 1 || got[0] != none {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	var many []*fleetv1.Buffer
	for i := range v1alpha1.MaxBuffers + 1 {
		many = append(many, &fleetv1.Buffer{Template: fmt.Sprint("t", i)})
	}
	if got, err := CheckedBuffers(many); err == nil || len(got) != v1alpha1.MaxBuffers {
		t.Errorf("%d buffers of %d: %v", len(got), len(many), err)
	}
}
