package member

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// The members that can run a template are counted as reports arrive: the counts agree with the
// reports whatever members report, restart, or leave.
func TestAvailabilityIsCountedAsReportsArrive(t *testing.T) {
	x := newFixture(t)
	random := rand.New(rand.NewPCG(1, 2))
	connections := make([]link.Member, 4)
	for step := range 300 {
		i := random.IntN(len(connections))
		name, uid := fmt.Sprintf("m%d", i), types.UID(fmt.Sprintf("uid-m%d-%d", i, random.IntN(2)))
		switch action := random.IntN(8); {
		case action == 0:
			x.Remove(name)
			connections[i] = nil
		case action == 1 || connections[i] == nil:
			x.Remove(name)
			x.register(name, uid)
			connections[i], _, _ = x.open(uid, fmt.Sprint(step))
			reportAll(connections[i])
		default:
			report := &fleetv1.CapacityReport{Sequence: uint64(step) + 1}
			for _, template := range []string{"browser", "desk", "kiosk"}[:random.IntN(4)] {
				report.Templates = append(report.Templates, &fleetv1.TemplateCapacity{Name: template, Revision: "r1", Available: random.IntN(2) == 0})
			}
			connections[i].Capacity(report)
		}
		for _, template := range []string{"browser", "desk", "kiosk"} {
			key := placement.TemplateKey{Name: template, Revision: "r1"}
			var evaluated, available int
			for _, m := range x.members {
				if c, known := m.capacity.ByTemplate()[key]; known {
					evaluated, available = evaluated+1, available+count(c.Available)
				}
			}
			if can, of := x.CanRun(template, "r1"); int(can) != available || int(of) != len(x.members) || x.reported[key].evaluated != evaluated {
				t.Fatalf("step %d: %s can run in %d of %d, evaluated by %d; want %d of %d, by %d",
					step, template, can, of, x.reported[key].evaluated, available, len(x.members), evaluated)
			}
		}
	}
}
