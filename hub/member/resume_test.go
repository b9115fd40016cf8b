package member

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

func stored(name, hash string, from uint64) protocol.Result {
	return protocol.Result{
		SessionUID: types.UID("uid-" + name), Namespace: "desktops", Name: name, Epoch: 1, SpecHash: hash, Code: protocol.Stored, CountedFrom: from,
	}
}

func (x *fixture) resumes(name string) bool {
	d, _ := x.Resume(request(name), eu, 1, 2)
	return d.Placed
}

var eu = v1alpha1.ClusterRef{Name: "eu", UID: "uid-eu"}

func TestCapacityOfASessionThatRunsAgain(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 1))
	x.Observe(onHub("a", 1, "uid-eu"), false)
	d, _ := x.Resume(request("a"), eu, 1, 2)
	x.Expect(d.Placed).To(BeTrue())
	x.Expect(d.Message).To(Equal("eu: resumed there, 1 slot left"))
	x.Expect(x.Place(request("b"), 1).Placed).To(BeFalse(), "the capacity is reserved")

	// An earlier order may be acknowledged now.
	m.Results([]protocol.Result{stored("a", "idle", 3)})
	m.Capacity(capacityReport(3, 1))
	x.Expect(x.Place(request("b"), 1).Placed).To(BeFalse(), "the report does not count it")
	x.Ordered("uid-a", 1, "uid-eu", "run 2")
	m.Results([]protocol.Result{stored("a", "run 2", 4)})
	x.Expect(x.Place(request("b"), 1).Placed).To(BeFalse(), "the report is from before")
	m.Capacity(capacityReport(4, 1))
	x.Expect(x.Place(request("b"), 1).Placed).To(BeTrue(), "the report counts it")
}

func TestCapacityOfAResumeThatIsNotWrittenIsReleased(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 1))
	x.Observe(onHub("a", 1, "uid-eu"), false)
	x.Expect(x.resumes("a")).To(BeTrue())
	x.Observe(onHub("a", 1, "uid-eu"), false) // something else was written
	x.Release("uid-a")
	x.Expect(x.sessions("eu")).To(Equal(int32(1)), "it is placed there nevertheless")
	x.Expect(x.Place(request("b"), 1).Placed).To(BeTrue())
	x.Release("uid-b")

	x.Expect(x.resumes("a")).To(BeTrue())
	shown := onHub("a", 1, "uid-eu")
	shown.Status.Placement.Run = 2
	x.Observe(shown, false)
	x.Release("uid-a")
	x.Expect(x.Place(request("b"), 1).Placed).To(BeFalse(), "once it is written there is nothing to release")
}

func TestWhyASessionDoesNotRunAgain(t *testing.T) {
	x := newFixture(t)
	expect := func(message string, away bool) {
		t.Helper()
		d, isAway := x.Resume(request("a"), eu, 1, 2)
		x.Expect(d.Placed).To(BeFalse())
		x.Expect(d.Message).To(HavePrefix(message))
		x.Expect(isAway).To(Equal(away))
	}
	expect("eu is no longer a member of the fleet", true)
	x.register("eu", "uid-eu")
	m, _ := x.connect("uid-eu", "i1")
	m.Capacity(capacityReport(2, 0))
	expect("eu lacks cpu", false)
	at := metav1.NewTime(x.clock.Now())
	x.register("eu", "uid-eu", func(mc *v1alpha1.MemberCluster) { mc.DeletionTimestamp = &at })
	expect("eu is not ready (eu: it is being removed)", false)
	x.register("eu", "uid-eu")
	m.Closed(nil)
	expect("eu is not ready (eu: its agent is not connected)", true)
}

func TestRebuiltReservationIsCountedByItsRunOnly(t *testing.T) {
	x := newFixture(t)
	x.register("eu", "uid-eu")
	x.Observe(onHub("a", 1, "uid-eu"), false)
	x.Reserve(onHub("a", 1, "uid-eu"), 1, 2, "uid-eu")
	idle := item("a", 1, active)
	idle.Annotations = map[string]string{v1alpha1.AnnotationSpecHash: "idle"}
	m, _ := x.connect("uid-eu", "i1", idle)
	x.Ordered("uid-a", 1, "uid-eu", "run 2")
	m.Capacity(capacityReport(2, 1))
	x.Expect(x.Place(request("b"), 1).Placed).To(BeFalse(), "the order to run again has not reached the member yet")
	m.Results([]protocol.Result{stored("a", "run 2", 3)})
	m.Capacity(capacityReport(3, 1))
	x.Expect(x.Place(request("b"), 1).Placed).To(BeTrue())
}
