package member

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// drawnMember is a member of a fleet with a history that rapid draws.
type drawnMember struct {
	*fixture
	name     string
	declared *v1alpha1.MemberCluster
	stream   link.Member
	instance int
	sequence uint64
}

func (m *drawnMember) uid() types.UID { return types.UID("uid-" + m.name) }

// memberSteps are what may happen to a member.
var memberSteps = map[string]func(m *drawnMember, t *rapid.T){
	"register": func(m *drawnMember, _ *rapid.T) {
		if m.declared == nil {
			m.declared = m.register(m.name, m.uid())
		}
	},
	"edit": (*drawnMember).edit,
	"remove": func(m *drawnMember, _ *rapid.T) {
		m.Remove(m.name)
		m.declared, m.stream = nil, nil
	},
	"open": func(m *drawnMember, t *rapid.T) {
		m.instance += rapid.IntRange(0, 1).Draw(t, "restarted")
		if stream, _, err := m.open(m.uid(), fmt.Sprint(m.name, m.instance)); err == nil {
			m.stream = stream
			reportAll(stream)
		}
	},
	"capacity": func(m *drawnMember, _ *rapid.T) {
		if m.sequence++; m.stream != nil {
			m.stream.Capacity(capacityReport(m.sequence, 100))
		}
	},
	"close": func(m *drawnMember, t *rapid.T) {
		if m.stream != nil {
			m.stream.Closed(rapid.SampledFrom([]error{nil, protocol.ErrStalled, errors.New("reset")}).Draw(t, "why"))
		}
	},
	"renew": func(m *drawnMember, t *rapid.T) {
		_, _ = m.Renew(m.uid(), link.Renewal{Instance: fmt.Sprint(m.name, m.instance), LeadershipUncertain: rapid.Bool().Draw(t, "uncertain")})
	},
	"wait": func(m *drawnMember, t *rapid.T) {
		m.runs(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
	},
	"pause": func(m *drawnMember, t *rapid.T) {
		m.clock.Step(time.Duration(rapid.IntRange(1, 40).Draw(t, "seconds")) * time.Second)
	},
}

// edit changes what the member's MemberCluster declares.
func (m *drawnMember) edit(t *rapid.T) {
	if m.declared == nil {
		return
	}
	mc := m.declared.DeepCopy()
	switch rapid.SampledFrom([]string{"cordon", "revoke", "allow", "fence", "unfence", "delete"}).Draw(t, "edit") {
	case "cordon":
		mc.Spec.Scheduling = v1alpha1.SchedulingCordoned
	case "revoke":
		mc.Spec.Access = v1alpha1.AccessRevoked
	case "allow":
		mc.Spec.Access = v1alpha1.AccessAllowed
	case "fence":
		mc.Spec.Fenced = &v1alpha1.FencedDeclaration{Fingerprint: "fp"}
	case "unfence":
		mc.Spec.Fenced = nil
	case "delete":
		mc.DeletionTimestamp = &metav1.Time{Time: m.clock.Now()}
	}
	mc.Generation++
	m.declared = mc
	m.Register(mc)
}

// A decision reads only the members that have changed, or may have by time alone. Whatever
// happens, it finds what it would find in all of them.
func TestADecisionSeesEveryChangeOfAMember(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := watched(t)
		members := []*drawnMember{{fixture: x, name: "a"}, {fixture: x, name: "b"}}
		var uids []types.UID
		for _, m := range members {
			memberSteps["register"](m, rt)
			memberSteps["open"](m, rt)
			memberSteps["capacity"](m, rt)
			uids = append(uids, m.uid())
		}
		steps := rapid.SampledFrom([]string{"register", "edit", "remove", "open", "capacity", "close", "renew", "renew", "wait", "pause"})
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			memberSteps[steps.Draw(rt, "step")](rapid.SampledFrom(members).Draw(rt, "member"), rt)
			// A member becomes engaged concurrently.
			NewWithT(rt).Eventually(func() string { return x.unseen(uids) }).Should(BeEmpty())
		}
	})
}

// Each change of members is compared with every class of pending sessions. With 1,000 members that
// change at once and 100 classes, copies for each would be gigabytes.
func TestASnapshotOfSomeMembersAllocatesNothing(t *testing.T) {
	x := watched(t)
	var uids []types.UID
	for _, name := range []string{"a", "b", "c"} {
		uids = append(uids, types.UID(name))
		x.register(name, types.UID(name))
	}
	if n := len(x.Snapshot(uids).Candidates); n != len(uids) {
		t.Fatalf("%d candidates", n)
	}
	if n := testing.AllocsPerRun(100, func() { x.Snapshot(uids) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// unseen returns what a decision does not see.
func (x *fixture) unseen(uids []types.UID) string {
	options := []cmp.Option{
		cmpopts.SortSlices(func(a, b placement.Candidate) bool { return a.Name < b.Name }), cmpopts.EquateEmpty(),
		cmp.Comparer(func(a, b *placement.Capacity) bool { return a == b }),
	}
	return cmp.Diff(x.Snapshot(uids).Candidates, x.Snapshot(nil).Candidates, options...)
}
