package scheduling

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
)

// perUser is a request under a policy with a cap per user.
func perUser(r *Request) {
	r.Placement.PolicyName = "default"
	r.Placement.Policy = &v1alpha1.PlacementPolicySpec{SessionCaps: v1alpha1.SessionCaps{PerUser: ptr.To[int32](1)}}
}

// Under a cap per user, which the chart's default policy has, pending sessions of very many users are still one
// class while it is capacity that they lack.
func TestUsersOfAPolicyWithACapShareAClass(t *testing.T) {
	f := &slots{free: map[types.UID]map[string]int64{here: {}}}
	l := newFixture(t, f)
	const users = 300
	for i := range users {
		l.wait(request(fmt.Sprint("s", i), fmt.Sprint("user", i), "browser", perUser))
	}
	f.lookups = 0
	f.free[here]["browser"] = 2
	if got := l.requeued(capacityIn(here)); len(got) != 3 || f.lookups > 2 {
		t.Errorf("queued %d sessions after %d lookups, want one more than the two slots", len(got), f.lookups)
	}
}

// A session whose user has reached the cap since it was decided on keeps no slot from others, and is decided on again
// once the policy counts less.
func TestACappedSessionKeepsNoSlotFromOthers(t *testing.T) {
	f := &slots{free: map[types.UID]map[string]int64{here: {}}, capped: map[string]bool{}}
	l := newFixture(t, f)
	ben := request("ben", "ben", "browser", perUser)
	l.wait(ben)
	var capped []*Request
	for i := range 5 {
		r := request(fmt.Sprint("ann", i), "ann", "browser", perUser, priority(5))
		capped = append(capped, r)
		l.wait(r)
	}
	f.capped["ann"], f.free[here]["browser"] = true, 1
	l.requeued(capacityIn(here))
	if got := l.decide(); !slices.Contains(got, "ben") {
		t.Fatalf("enqueued %v, decided on %v: the slot is not used", got, f.decided)
	}
	l.placed(ben)
	for range 2 {
		for _, r := range capped {
			l.request(r)
		}
		l.decide()
	}
	if got := l.queued(); len(got) > 0 {
		t.Fatalf("%v are queued, and nothing has changed", got)
	}
	f.capped["ann"], f.free[here]["browser"] = false, 1
	if got := l.requeued(member.Change{Kind: member.PolicyCapacity, Policy: "default"}); len(got) != 2 {
		t.Errorf("queued %v once their user may have another one, want one more than the slot", got)
	}
}
