package protocol

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// unchangedBytes limits the traffic of a reconnect with 1,000 unchanged sessions in
// both directions together: the digest is 2 KiB of it.
const unchangedBytes = 4 << 10

// TestAReconnectCostsNoMoreThanWhatChanged counts the bytes on the wire, which do not
// depend on the machine. A whole inventory, as for a new hub, is for comparison.
func TestAReconnectCostsNoMoreThanWhatChanged(t *testing.T) {
	whole := reconnect(t, 1000, 1000, true)
	unchanged := reconnect(t, 1000, 0, false)
	some := reconnect(t, 1000, 10, false)
	t.Logf("whole inventory %s; nothing changed %s; 10 changed %s", whole, unchanged, some)
	if n := unchanged.total(); n > unchangedBytes {
		t.Errorf("%d bytes for 1,000 unchanged sessions, want at most %d", n, unchangedBytes)
	}
	if some.total()*8 > whole.total() {
		t.Errorf("%d bytes for 10 changed of 1,000 sessions, %d for all of them", some.total(), whole.total())
	}
	if larger := reconnect(t, 5000, 0, false); larger.total() > unchanged.total()+64 {
		t.Errorf("%d bytes for 5,000 unchanged sessions, %d for 1,000: it must not grow", larger.total(), unchanged.total())
	}
}

func BenchmarkReconnect(b *testing.B) {
	for _, changed := range []int{0, 10} {
		b.Run(fmt.Sprintf("sessions=1000/changed=%d", changed), func(b *testing.B) {
			var last traffic
			for b.Loop() {
				last = reconnect(b, 1000, changed, false)
			}
			b.ReportMetric(float64(last.toHub), "bytes-to-hub")
			b.ReportMetric(float64(last.toAgent), "bytes-to-agent")
		})
	}
}

type traffic struct{ toHub, toAgent int }

func (x traffic) total() int { return x.toHub + x.toAgent }

func (x traffic) String() string {
	return fmt.Sprintf("%d to the hub, %d to the agent", x.toHub, x.toAgent)
}

// reconnect connects with a number of sessions, loses the stream, changes some of them
// and returns the traffic of another connection, to the same hub or a new one.
func reconnect(t testing.TB, sessions, changed int, newHub bool) traffic {
	w := newWorld()
	w.member.dressed = true
	for i := range sessions {
		w.member.held[fmt.Sprintf("s%04d", i)] = &item{epoch: 1, hash: "0123456789abcdef", state: "Active"}
	}
	w.connect()
	w.exchange()
	w.drop()
	for i := range changed {
		w.member.changes(fmt.Sprintf("s%04d", i), "Active/changed")
	}
	if newHub {
		w.hub.forgetAll()
	}
	w.bytesToHub, w.bytesToAgent = 0, 0
	w.connect()
	w.exchange()
	if held, cached := len(w.member.held), len(w.hub.cache); held != cached || w.hub.conn == nil {
		t.Fatalf("%d are held, %d shown", held, cached)
	}
	for i := range changed {
		if uid := fmt.Sprintf("s%04d", i); w.hub.cache[uid].state != "Active/changed" {
			t.Fatalf("%s is %+v", uid, w.hub.cache[uid])
		}
	}
	return traffic{toHub: w.bytesToHub, toAgent: w.bytesToAgent}
}

// dress fills in a report as for a running desktop.
func dress(r *fleetv1.AssignmentReport) {
	at := timestamppb.New(time.Unix(1_700_000_000, 0))
	r.SessionNamespace, r.SessionName = "users", r.SessionUid
	r.Status.ObservedGeneration, r.Status.NodeName = 1, "node-17.eu-west.example.com"
	r.Status.StartTime, r.Status.RunningSince = at, at
	for _, kind := range []string{"HomeReady", "PodReady", "EndpointReady", "Ready"} {
		r.Status.Conditions = append(r.Status.Conditions, &fleetv1.Condition{
			Type: kind, Status: "True", Reason: "Ready", Message: "the desktop's part is ready", ObservedGeneration: 1, LastTransitionTime: at,
		})
	}
}
