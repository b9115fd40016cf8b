package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
)

// collected returns the series of a watcher that are not 0, rounded down.
func collected(t *testing.T, w *Watcher) (series []string) {
	t.Helper()
	c := &groupCollector{}
	c.watcher.Store(w)
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetValue())
			}
			if family.GetType() == dto.MetricType_GAUGE && m.Gauge.GetValue() != 0 {
				series = append(series, fmt.Sprintf("%s{%s} %d", strings.TrimPrefix(family.GetName(), "vdi_agent_node_"), strings.Join(labels, ","), int(m.Gauge.GetValue())))
			}
		}
	}
	slices.Sort(series)
	return series
}

func TestNodeGroupsAreMeasured(t *testing.T) {
	w := NewWatcher(Options{})
	expect := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, collected(t, w)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	m := w.model
	report := func(at time.Time) {
		for range 2 { // Pods of the report before count for exhaustion
			m.Elapsed(at)
			m.Report()
		}
	}
	expect("without node groups")
	now := time.Now().Truncate(time.Second)
	other := desktops(func(s *nodegroup.Spec) {
		s.Name, s.Labels, s.MaxNodes = "other", map[string]string{"pool": "other"}, ptr.To(int32(1))
	})
	m.Elapsed(now.Add(-time.Minute))
	m.SetNodeGroups([]nodegroup.Spec{desktops(), other})
	report(now.Add(-time.Minute))
	expect("before the sources were read")

	m.withGroups(func(g *growth) bool { g.read = [sources]bool{true, true, true}; g.SetDaemonSets(""); return true })
	nodes(ofPool("a"), ofPool("b", func(n *Node) { n.Created = now }, tainted("starting")))(m)
	inPool := func(at time.Time, pool string) func(*Pod) {
		return func(p *Pod) {
			p.NodeSelector, p.Times.Unschedulable = map[string]string{"pool": pool}, at
		}
	}
	waits("older", resources(3000, 1), inPool(now.Add(-50*time.Second), "desktops"))(m)
	m.SetPod(pod("full", "a", resources(4000, 1)))
	report(now.Add(-50 * time.Second))
	waits("newer", resources(3000, 1), inPool(now.Add(-10*time.Second), "desktops"))(m)
	for i := range 5 {
		waits(types.UID(fmt.Sprint("small", i)), resources(100, 1), inPool(now.Add(-10*time.Second), "desktops"))(m)
	}
	waits("not-seen", resources(100, 1), inPool(time.Time{}, "other"))(m)
	report(now.Add(-10 * time.Second))
	expect("two sessions wait",
		"group_nodes{desktops,growable} 1", "group_nodes{desktops,provisioning} 1", "group_nodes{desktops,usable} 1", "group_nodes{other,growable} 1",
		"group_waiting_seconds{desktops} 50", "provisioning_seconds{desktops} 120", "provisioning_seconds{other} 120")

	waits("not-seen", resources(100, 1), inPool(now.Add(-10*time.Second), "other"))(m)
	m.DeletePod("older")
	m.DeletePod("newer")
	for i := range 5 {
		m.DeletePod(types.UID(fmt.Sprint("small", i)))
	}
	m.DeleteNode("b")
	report(now.Add(time.Minute))
	expect("the autoscaler does nothing",
		"group_exhausted{other,NotTriggered} 1",
		"group_nodes{desktops,growable} 2", "group_nodes{desktops,usable} 1",
		"provisioning_seconds{desktops} 120", "provisioning_seconds{other} 120")

	m.SetNodeGroups([]nodegroup.Spec{other})
	report(now.Add(time.Minute))
	if got := strings.Join(collected(t, w), " "); strings.Contains(got, "desktops") || !strings.Contains(got, "{other") {
		t.Errorf("a removed group has series: %s", got)
	}
}

// A session that waits for a node that is being added waits since it had none that could be added.
func TestHowLongSessionsWait(t *testing.T) {
	w := NewWatcher(Options{})
	m := w.model
	groups(desktops())(m)
	longest := func(reported, at time.Duration) time.Duration {
		m.Elapsed(nine.Add(reported))
		m.Report()
		_, longest := measuredGroups(w, nine.Add(at))
		return longest["desktops"]
	}
	waits("p", resources(1000, 1))(m)
	for _, step := range []struct {
		after time.Duration
		// ago is when it was reported last.
		ago  time.Duration
		do   func(*Model)
		want time.Duration
	}{
		{after: 0, do: func(*Model) {}, want: 0},
		{after: 20 * time.Second, do: func(*Model) {}, want: 20 * time.Second},
		{after: 30 * time.Second, do: nodes(ofPool("b", tainted("starting"))), want: 30 * time.Second},
		{after: 40 * time.Second, ago: 5 * time.Second, do: func(m *Model) {
			m.DeleteNode("b")
			nodes(ofPool("full"))(m)
			m.SetPod(pod("other", "full", resources(4000, 1)))
			m.SetNodeGroups([]nodegroup.Spec{desktops(func(s *nodegroup.Spec) { s.MaxNodes = ptr.To(int32(1)) })})
		}, want: 0},
		{after: 50 * time.Second, do: func(m *Model) { m.SetNodeGroups([]nodegroup.Spec{desktops()}) }, want: 0},
		{after: 60 * time.Second, do: func(*Model) {}, want: 10 * time.Second},
	} {
		step.do(m)
		if got := longest(step.after-step.ago, step.after); got != step.want {
			t.Errorf("after %s it waits for %s, want %s", step.after, got, step.want)
		}
	}
}
