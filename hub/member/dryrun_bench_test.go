package member

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// benchFleet has members with room for a hundred sessions each, and reservations
// that no report counts yet.
func benchFleet(b *testing.B, members, reservations int) *Fleet {
	b.Helper()
	f := New(Options{Scheme: kruntime.NewScheme(), Clock: clock.RealClock{}, Timings: health.DefaultTimings(1)})
	for i := range members {
		mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i), UID: types.UID(fmt.Sprint("uid-m", i))}}
		f.Register(mc)
		m, err := f.Open(context.Background(), mc.UID, protocol.Hello{Fingerprint: "fp", Instance: "i"}, &peer{})
		if err != nil {
			b.Fatal(err)
		}
		reportAll(m)
		m.Capacity(room(1, 100))
		f.uids[mc.UID].cluster.Synced.Store(true)
	}
	for i := range reservations {
		name := fmt.Sprint("reserved-", i)
		f.Reserve(types.UID(name), 1, 1, types.UID(fmt.Sprint("uid-m", i%members)), request(name).Template, request(name).Resources)
	}
	return f
}

// BenchmarkReview prints how long decisions wait for the copy that a review is
// made from, and how long a review of a hundred sessions takes.
func BenchmarkReview(b *testing.B) {
	for _, members := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint("members=", members), func(b *testing.B) {
			f := benchFleet(b, members, 20_000)
			longest := time.Duration(0)
			for b.Loop() {
				began := time.Now()
				f.trial(request("asked"))
				longest = max(longest, time.Since(began))
				f.Review(b.Context(), Inquiry{Request: request("asked"), Count: 100})
			}
			b.ReportMetric(float64(longest.Microseconds()), "locked-max-µs")
		})
	}
}
