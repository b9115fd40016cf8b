package index

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// BenchmarkIndexes reports the memory that the indexes take for each of 100,000 Running sessions in
// 1,000 members and 20 namespaces.
func BenchmarkIndexes(b *testing.B) {
	const sessions = 100_000
	all := make([]*v1alpha1.VDISession, sessions)
	for i := range all {
		all[i] = sessiontest.With(sessiontest.Ready, sessiontest.PlacedAt(types.UID(fmt.Sprint("member-", i%1000)), 1), func(s *v1alpha1.VDISession) {
			s.Namespace, s.Name, s.UID = fmt.Sprint("desktops-", i/5000), fmt.Sprintf("session-%06d", i), types.UID(fmt.Sprint("uid-", i))
			s.Spec.User, s.Spec.Template = fmt.Sprint("user-", i/3), fmt.Sprint("template-", i%100)
			s.Status.Phase, s.Status.TemplateRevision = v1alpha1.PhaseRunning, "r1"
		})
	}
	for b.Loop() {
		without := taken(func() any {
			store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
			for _, s := range all {
				_ = store.Add(s) // each has a name
			}
			return store
		})
		with := taken(func() any { return Of(all...) })
		b.ReportMetric(float64(with-without)/sessions, "live-bytes/session")
	}
	runtime.KeepAlive(all)
}

// taken returns the memory that is live because of the result of a function.
func taken(of func() any) int64 {
	before := live()
	result := of()
	after := live()
	runtime.KeepAlive(result)
	return after - before
}

func live() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // no heap holds exabytes
}
