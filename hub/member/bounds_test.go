package member

import (
	"context"
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// invented returns reports of sessions that do not exist.
func invented(prefix string, n int) []protocol.Report {
	out := make([]protocol.Report, n)
	for i := range out {
		out[i] = reportsOf(item(fmt.Sprintf("%s-%d", prefix, i), 1, active))[0]
	}
	return out
}

// attacker connects a member in which no session was ever placed.
func (x *fixture) attacker() (link.Member, *peer) {
	x.register("eu", "uid-eu")
	m, p, err := x.open("uid-eu", "i1")
	x.Expect(err).NotTo(HaveOccurred())
	m.Part(convert.BucketSet{}, nil)
	m.Capacity(capacityReport(1, 100))
	x.Eventually(x.cluster("eu")).Should(Succeed())
	return m, p
}

func TestAMemberCannotMakeTheHubKeepReportsThatItInvents(t *testing.T) {
	x := newFixture(t)
	m, p := x.attacker()
	for batch := range 30 {
		m.Changes(invented(fmt.Sprint("b", batch), 1000))
	}
	x.Expect(p.closed).To(MatchError(protocol.ErrExcess))
	objects, remembered := x.cache("uid-eu").Len()
	x.Expect(objects).To(BeNumerically("<=", 1000))
	x.Expect(remembered).To(BeNumerically("<=", 10_000))
}

// placedHere returns reports of sessions that the hub placed in the member.
func (x *fixture) placedHere(prefix string, n int) []protocol.Report {
	reports := invented(prefix, n)
	for _, r := range reports {
		x.Observe(placedSession(r.Name, 1, v1alpha1.ClusterRef{Name: "eu", UID: "uid-eu"}), false)
	}
	return reports
}

func TestWhatTheHubPlacedIsKeptHoweverManyOrphansThereAre(t *testing.T) {
	x := newFixture(t)
	m, p := x.attacker()
	cache := x.cache("uid-eu")
	cache.MaxOrphans, cache.MaxVisible = 40, 10
	m.Changes(invented("orphan", 40))
	m.Changes(x.placedHere("known", 30))
	objects, remembered := cache.Len()
	x.Expect([]int{objects, remembered}).To(Equal([]int{40, 70}))
	x.Expect(p.closed).NotTo(HaveOccurred())
	x.Expect(cache.Orphans()).To(And(HavePrefix("40 assignments there are orphans"), ContainSubstring("desktops/orphan-")))

	m.Changes(invented("orphan", 40))
	x.Expect(p.closed).NotTo(HaveOccurred(), "reported again they are the same")
	x.Expect(cache.Sums().Assigned).To(Equal(assignedSum(append(invented("orphan", 40), x.placedHere("known", 30)...))),
		"both sides agree on what the member holds, orphans that are not kept included")
	m.Changes(invented("more", 1))
	x.Expect(p.closed).To(MatchError(And(ContainSubstring("more than 40 assignments that the hub did not place"), ContainSubstring("kubectl get sessionassignments"))))
	objects, remembered = cache.Len()
	x.Expect([]int{objects, remembered}).To(Equal([]int{40, 70}))
}

func assignedSum(reports []protocol.Report) (sum uint64) {
	for i := range reports {
		a := reports[i].SessionAssignment
		sum += convert.AssignedHash(string(a.Spec.Session.UID), a.Spec.Epoch, a.Annotations[v1alpha1.AnnotationSpecHash])
	}
	return sum
}

func TestOrphansThatAreGoneFreeTheirShareForOthers(t *testing.T) {
	x := newFixture(t)
	m, p := x.attacker()
	cache := x.cache("uid-eu")
	cache.MaxOrphans, cache.MaxVisible = 20, 5
	m.Changes(invented("a", 20))
	gone := invented("a", 20)
	var stopped []protocol.Result
	for i := range gone {
		gone[i].Gone = true
		stopped = append(stopped, protocol.Result{Code: protocol.Stopped, SessionUID: gone[i].Spec.Session.UID, Namespace: "desktops", Name: gone[i].Name, Epoch: 1})
	}
	m.Changes(gone)
	m.Results(stopped)
	x.Expect(x.shown("uid-eu")).To(HaveLen(5), "the end of those that were shown is reported, and the hub forgets it once it has recorded it")
	for name := range x.shown("uid-eu") {
		version := client.Preconditions{ResourceVersion: &cache.Get(keyOfName(name)).ResourceVersion}
		x.Expect(x.client("eu").Delete(context.Background(), item(name, 1, ""), version)).To(Succeed())
	}
	m.Changes(invented("b", 20))
	x.Expect(p.closed).NotTo(HaveOccurred())
	objects, remembered := cache.Len()
	x.Expect([]int{objects, remembered}).To(Equal([]int{5, 20}))
}

// An orphan whose session becomes known, because it is placed there after all, is shown at
// its next report.
func TestAnOrphanWhoseSessionIsPlacedThereIsShown(t *testing.T) {
	x := newFixture(t)
	m, _ := x.attacker()
	cache := x.cache("uid-eu")
	cache.MaxVisible = 0
	m.Changes(invented("s", 1))
	x.Expect(x.shown("uid-eu")).To(BeEmpty())
	m.Changes(x.placedHere("s", 1))
	x.Expect(x.shown("uid-eu")).To(HaveLen(1))
	x.Expect(cache.Orphans()).To(BeEmpty())
}

func TestAProofMakesASessionKnownUnderOneName(t *testing.T) {
	x := newFixture(t)
	x.proven = func(member, session types.UID, epoch int64, proof string) bool {
		return member == "uid-eu" && session == "uid-s" && epoch == 1 && proof == "signed"
	}
	m, _ := x.attacker()
	cache := x.cache("uid-eu")
	cache.MaxVisible = 0
	var reports []protocol.Report
	for n := range 50 {
		r := invented("replayed", n+1)[n]
		r.Spec.Session.UID, r.Spec.Proof = "uid-s", "signed"
		reports = append(reports, r)
	}
	m.Changes(reports)
	x.Expect(x.shown("uid-eu")).To(HaveLen(1))
}

func TestAnInventoryIsBoundedBeforeItIsWhole(t *testing.T) {
	x := newFixture(t)
	m, _ := x.attacker()
	page := func(prefix string, n int) *fleetv1.Inventory {
		out := &fleetv1.Inventory{}
		for _, r := range invented(prefix, n) {
			out.Items = append(out.Items, &fleetv1.AssignmentReport{
				SessionUid: string(r.Spec.Session.UID), Namespace: r.Namespace, Name: r.Name, Epoch: 1, SpecHash: "h",
				Status: &fleetv1.AssignmentStatus{Message: strings.Repeat("x", 2048)}})
		}
		return out
	}
	x.cache("uid-eu").MaxOrphans, x.cache("uid-eu").MaxVisible = 100, 10
	first := page("a", 100)
	x.Expect(m.Screen(first)).To(Succeed())
	kept := 0
	for _, r := range first.Items {
		kept += len(r.GetStatus().GetMessage())
	}
	x.Expect(kept).To(Equal(10*2048), "of orphans beyond those that are shown, the status is not kept")
	x.Expect(m.Screen(page("b", 1))).To(MatchError(protocol.ErrExcess))

	// Another stream begins with new bounds. The status of known sessions is bounded in bytes.
	other := &connection{fleet: x.state, member: x.uids["uid-eu"], peer: &peer{}}
	x.cache("uid-eu").MaxBytes = 1 << 20
	x.placedHere("known", 1000)
	whole := page("known", 1000)
	x.Expect(other.Screen(&fleetv1.Inventory{Items: whole.Items[:400]})).To(Succeed())
	x.Expect(other.Screen(&fleetv1.Inventory{Items: whole.Items[400:]})).To(MatchError(ContainSubstring("more than 1 MiB of status")))
}

func TestBytesOfAMemberAreBounded(t *testing.T) {
	x := newFixture(t)
	m, p := x.attacker()
	cache := x.cache("uid-eu")
	cache.MaxBytes = 64 << 10
	reports := x.placedHere("known", 100)
	for i := range reports {
		reports[i].Status.Message = strings.Repeat("x", 1024)
	}
	m.Changes(reports)
	x.Expect(p.closed).To(MatchError(protocol.ErrExcess))
	size := 0
	for _, a := range cache.Items() {
		size += len(a.Status.Message)
	}
	x.Expect(size).To(And(BeNumerically("<=", 64<<10), BeNumerically(">", 50<<10)))
}

func TestUnreadableReportsOfInventedNamesAreBounded(t *testing.T) {
	x := newFixture(t)
	m, p := x.attacker()
	x.cache("uid-eu").MaxOrphans, x.cache("uid-eu").MaxVisible = 50, 10
	reports := invented("a", 1000)
	for i := range reports {
		reports[i].Unread = true
	}
	m.Changes(reports)
	_, remembered := x.cache("uid-eu").Len()
	x.Expect(remembered).To(Equal(50))
	x.Expect(p.closed).To(MatchError(protocol.ErrExcess))
}

func TestAnAgentThatReportsTooMuchIsNamedAndHeldOffForAWhile(t *testing.T) {
	x := newFixture(t)
	m, p := x.attacker()
	x.cache("uid-eu").MaxOrphans, x.cache("uid-eu").MaxVisible = 5, 2
	m.Changes(invented("a", 6))
	m.Closed(p.closed)
	_, _, err := x.open("uid-eu", "i1")
	x.Expect(err).To(MatchError(protocol.ErrExcess))
	_, err = x.Renew("uid-eu", link.Renewal{Instance: "i1"})
	x.Expect(err).NotTo(HaveOccurred(), "what runs there keeps its lease")
	synced := func() string {
		v, _ := x.viewOf("eu")
		c := syncedCondition(v, nil)
		return fmt.Sprint(c.Status, " ", c.Reason, " ", c.Message)
	}
	x.Expect(synced()).To(And(HavePrefix("False Excess the stream was ended at "), ContainSubstring("5 assignments"), ContainSubstring("kubectl get sessionassignments")))
	_, exceeded := x.popEvents("eu")
	x.Expect(exceeded).To(ContainSubstring("5 assignments"))
	_, exceeded = x.popEvents("eu")
	x.Expect(exceeded).To(BeEmpty(), "one event")

	x.clock.Step(x.timings.Suspect)
	m, _, err = x.open("uid-eu", "i1")
	x.Expect(err).NotTo(HaveOccurred())
	m.Part(convert.BucketSet{}, nil)
	x.Expect(synced()).To(HavePrefix("False Excess"), "it is shown for a while, though the agent is admitted again")
	x.clock.Step(x.timings.Recovery)
	_, err = x.Renew("uid-eu", link.Renewal{Instance: "i1"})
	x.Expect(err).NotTo(HaveOccurred())
	x.Expect(synced()).To(HavePrefix("True Synced"))
}

// A lease renewal of another member does not wait while a member's reports are applied, even
// if that never ends.
func TestRenewalsDoNotWaitForAnotherMembersReports(t *testing.T) {
	x := newFixture(t)
	m, _ := x.attacker()
	x.register("us", "uid-us")
	x.connect("uid-us", "i1")
	release := make(chan struct{})
	x.proven = func(types.UID, types.UID, int64, string) bool { // as while a large inventory is applied
		<-release
		return false
	}
	slow := invented("a", 10)
	for i := range slow {
		slow[i].Spec.Proof = "invented"
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.Changes(slow)
		m.Results([]protocol.Result{{Code: protocol.Stopped, SessionUID: "uid-a-1", Namespace: "desktops", Name: "a-1", Epoch: 1}})
		m.Part(convert.BucketSet{}, nil)
	}()
	renewed := make(chan error, 1)
	go func() {
		for range 100 {
			if _, err := x.Renew("uid-us", link.Renewal{Instance: "i1"}); err != nil {
				renewed <- err
				return
			}
		}
		x.viewOf("eu")
		renewed <- nil
	}()
	x.Eventually(renewed, "10s").Should(Receive(BeNil()))
	close(release)
	<-done
}

func TestResultsOfUnknownSessionsCreateNothing(t *testing.T) {
	x := newFixture(t)
	m, _ := x.attacker()
	var results []protocol.Result
	for _, code := range []protocol.Code{protocol.Stored, protocol.Stopped, protocol.Refused} {
		name := strings.ToLower(string(code))
		results = append(results, protocol.Result{Code: code, SessionUID: types.UID("uid-" + name), Namespace: "desktops", Name: name, Epoch: 1, SpecHash: "h"})
	}
	m.Results(results)
	x.Expect(x.shown("uid-eu")).To(BeEmpty())

	for _, r := range results {
		x.Observe(placedSession(r.Name, 1, v1alpha1.ClusterRef{Name: "eu", UID: "uid-eu"}), false)
	}
	m.Results(results)
	x.Expect(x.shown("uid-eu")).To(Equal(map[string]string{"stored": "Active@1", "stopped": "Stopped@1", "refused": "Refused@1"}))
	for i := range results {
		results[i].Name = "another-" + results[i].Name
	}
	m.Results(results)
	x.Expect(x.shown("uid-eu")).To(HaveLen(3), "a session has one assignment")
}

func TestCapacityOfTemplatesThatTheHubDoesNotHaveIsDropped(t *testing.T) {
	x := newFixture(t)
	_ = x.SetTemplates(t.Context(), &fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{Name: "browser", Revision: "r1"}}}, nil)
	m, _ := x.attacker()
	for n := range uint64(100) {
		m.Capacity(templatesReport(n+2, n+1, capacityOf(fmt.Sprint("invented-", n), 1)))
	}
	c := x.uids["uid-eu"].capacity
	x.Expect(c.Sequence).To(BeNumerically("==", 101))
	x.Expect(c.Templates).To(HaveLen(1), "what it reported of the existing template stays")
}

func TestChangesOfCapacityDoNotAddUp(t *testing.T) {
	x := newFixture(t)
	m, p := x.attacker()
	for n := range uint64(10) {
		template := capacityOf(fmt.Sprint("t", n), 1)
		template.Buckets[0].Free = map[string]int64{strings.Repeat("r", 1<<20): 1}
		m.Capacity(templatesReport(n+2, n+1, template))
	}
	x.Expect(p.closed).To(MatchError(protocol.ErrExcess))
	x.Expect(p.closed).To(MatchError(ContainSubstring("add up to")))
	bytes := 0
	for _, template := range x.uids["uid-eu"].capacity.Templates {
		bytes += int(template.Bytes)
	}
	x.Expect(bytes).To(BeNumerically("<=", maxCapacityBytes))
}

func TestConditionsOfAReportAreBounded(t *testing.T) {
	x := newFixture(t)
	m, _ := x.attacker()
	for batch := range 40 {
		reports := invented(fmt.Sprint("b", batch), 20)
		for i := range reports {
			for n := range convert.MaxConditions {
				reports[i].Status.Conditions = append(reports[i].Status.Conditions,
					metav1.Condition{Type: fmt.Sprint("T", n), Message: strings.Repeat("x", convert.MaxMessage)})
			}
		}
		m.Changes(reports)
	}
	bytes := 0
	for _, a := range x.cache("uid-eu").Items() {
		for _, c := range a.Status.Conditions {
			bytes += len(c.Message)
		}
	}
	x.Expect(bytes).To(BeNumerically("<=", 4<<20))
}

// The confirmation of a withdrawal counts although the member reports nothing of the session
// and the hub no longer has it, since its finalizer was removed.
func TestARequestedEndCounts(t *testing.T) {
	x := newFixture(t)
	m, _ := x.attacker()
	end := []protocol.Result{{SessionUID: "uid-gone", Namespace: "desktops", Name: "gone", Epoch: 1, Code: protocol.Stopped}}
	m.Results(end)
	x.Expect(x.shown("uid-eu")).To(BeEmpty(), "no end was requested")
	x.Expect(x.client("eu").Delete(context.Background(), item("gone", 1, ""))).To(Succeed())
	m.Results(end)
	x.Expect(x.shown("uid-eu")).To(HaveLen(1))
}
