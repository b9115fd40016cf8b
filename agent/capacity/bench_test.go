package capacity

import (
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
)

// large returns a model of a member with 5,000 nodes, 50,000 Pods and 20 templates.
func large() *Model {
	m := NewModel(restriction.Defaults())
	m.SetIngressClasses(Classes{Default: true})
	var templates []*requirements
	for i := range int64(20) {
		templates = append(templates, &requirements{Name: fmt.Sprint("t", i), Revision: "r", Resources: quantities(resources(500*(1+i%8), 1+i%16))})
	}
	m.SetTemplates(templates)
	for i := range 5000 {
		m.SetNode(machine(fmt.Sprint("node-", i), 64000, 256))
	}
	for i := range 50000 {
		m.SetPod(pod(types.UID(fmt.Sprint("pod-", i)), fmt.Sprint("node-", i%5000), resources(int64(100+i%7919), int64(i%17))))
	}
	return m
}

// BenchmarkPodChange measures the creation and deletion of a Pod in the model.
func BenchmarkPodChange(b *testing.B) {
	m := large()
	b.ReportAllocs()
	for b.Loop() {
		m.SetPod(pod("other", "node-7", resources(1000, 1)))
		m.DeletePod("other")
	}
}

// BenchmarkReport measures a report after one Pod has changed.
func BenchmarkReport(b *testing.B) {
	m := large()
	m.Report()
	var after runtime.MemStats
	b.ReportAllocs()
	for b.Loop() {
		m.SetPod(pod("other", "node-7", resources(1000, 1)))
		m.DeletePod("other")
		m.Report()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc)/(1<<20), "MiB-live")
	runtime.KeepAlive(m)
}

// BenchmarkReportOfABurst measures a report with a thousand assignments without Pods.
func BenchmarkReportOfABurst(b *testing.B) {
	m := large()
	for i := range 1000 {
		m.SetAssignment(assigned(types.UID(fmt.Sprint("s", i)), resources(1000, 2)))
	}
	for b.Loop() {
		m.Report()
	}
}

// BenchmarkReportWithNodeGroups measures a report with four node groups, of which all nodes are, and a thousand
// Pods without a node.
func BenchmarkReportWithNodeGroups(b *testing.B) {
	m := large()
	var all []nodegroup.Spec
	for i := range 4 {
		all = append(all, desktops(func(s *nodegroup.Spec) {
			s.Name, s.Labels, s.MaxNodes = fmt.Sprint("g", i), map[string]string{"pool": fmt.Sprint(i)}, ptr.To(int32(5000))
		}))
	}
	groups(all...)(m)
	for i := range 5000 {
		m.SetNode(with(machine(fmt.Sprint("node-", i), 64000, 256), func(n *Node) { n.Labels["pool"], n.State.Ready = fmt.Sprint(i%4), true }))
	}
	for i := range 1000 {
		waitsFor(types.UID(fmt.Sprint("p", i)), "t1", resources(1000, 2))(m)
	}
	for b.Loop() {
		m.Elapsed(nine)
		m.Report()
	}
}
