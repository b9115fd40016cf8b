package member

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
)

// A hub that has lost state has no record of nearly all that a member runs: it stops a few
// of these assignments, and then leaves the decision to an operator.
func TestWithdrawalsWithoutACauseStop(t *testing.T) {
	for holds, most := range map[int]int{3: 3, 10: 5, 100: 30} {
		t.Run(fmt.Sprint(holds), func(t *testing.T) {
			x := newControllers(t, newMemberObject("eu"))
			x.reconcile("eu")
			var items []*v1alpha1.SessionAssignment
			for i := range holds {
				items = append(items, item(fmt.Sprint("s", i), 1, active))
			}
			x.connect("uid-eu", "i1", items...)
			x.renew("uid-eu", "i1")
			x.reconcile("eu")
			withdrawn := 0
			for range 2 { // the results are the same at the second call
				withdrawn = 0
				for i := range holds {
					withdrawn += count(x.MayWithdraw("uid-eu", types.UID(fmt.Sprint("uid-s", i))))
				}
			}
			x.Expect(withdrawn).To(Equal(most))
			x.clock.Step(backoff.StatusInterval)
			x.reconcile("eu")
			if most == holds {
				x.Expect(x.shows(x.member("eu"))).NotTo(ContainElement(HavePrefix("Synced=False")))
				return
			}
			x.Expect(x.shows(x.member("eu"))).To(ContainElement("Synced=False/WithdrawalsStopped"))
			x.Expect(x.collected("vdi_hub_member_withdrawals_stopped")).To(Equal([]string{
				fmt.Sprintf("vdi_hub_member_withdrawals_stopped{member=eu} %d", holds-most)}))

			// Once those are withdrawn, none is withheld, and an hour later others are permitted.
			for i := range holds {
				x.Withdrawn("uid-eu", types.UID(fmt.Sprint("uid-s", i)))
			}
			x.Expect(x.MayWithdraw("uid-eu", "uid-next")).To(BeFalse(), "as many were within the hour")
			x.Withdrawn("uid-eu", "uid-next")
			x.clock.Step(backoff.StatusInterval)
			x.reconcile("eu")
			x.Expect(x.shows(x.member("eu"))).NotTo(ContainElement(HavePrefix("Synced=False")))
			x.clock.Step(withdrawnWithin)
			x.Expect(x.MayWithdraw("uid-eu", "uid-next")).To(BeTrue())
		})
	}
}
