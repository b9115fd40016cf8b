package cache

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// A session that moves has a slot elsewhere before it is stopped, and is placed once that is confirmed. Until
// the acknowledgment of another session arrives, the report and its reservation both count that one: no new
// session fits, but the slot of the one that moves is not lost.
func TestSessionThatMovesKeepsItsSlot(t *testing.T) {
	const us = types.UID("uid-us")
	for name, c := range map[string]struct {
		change func(*placement.Request)
		epoch  int64
		keeps  bool
	}{
		"the same request":           {func(*placement.Request) {}, 2, true},
		"it requests more since":     {func(r *placement.Request) { r.Resources = placement.Resources{"cpu": 1001} }, 2, false},
		"another template":           {func(r *placement.Request) { r.Template.Revision = "r2" }, 2, false},
		"another epoch":              {func(*placement.Request) {}, 3, false},
		"the member has refused it":  {func(r *placement.Request) { r.Refused = map[types.UID]string{us: "no"} }, 2, false},
		"another region is required": {func(r *placement.Request) { r.RequiredRegions = []string{"eu"} }, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newFixture(t, member("us", "us", 2))
			x.Expect(x.Place(request("other"), 1).Placed).To(BeTrue())
			moves := request("moves")
			x.Expect(x.Place(moves, 2).Placed).To(BeTrue())
			x.Expect(x.Place(request("waits"), 1).Placed).To(BeFalse())

			report := member("us", "us", 1).Capacity // it counts the Pod of the other
			report.Sequence = 2
			x.Reported(us, report)
			fleet := x.members.(fleet)
			fleet[0].Capacity = report
			c.change(&moves)
			x.Expect(x.Place(moves, c.epoch).Placed).To(Equal(c.keeps))
			x.Expect(x.Place(request("waits"), 1).Placed).To(BeFalse())
			if c.keeps {
				x.CountedFrom("uid-other", 1, us, "hash", 2)
				x.Expect(x.outstanding(us)).To(Equal(1))
				x.Expect(x.Place(request("waits"), 1).Placed).To(BeFalse(), "the slot is used")
			}
		})
	}
}
