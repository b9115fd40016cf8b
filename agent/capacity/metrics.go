package capacity

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

var metricNotEnforced = metrics.NewGauge("vdi_agent_namespaces_not_enforced",
	"Admitted namespaces that do not enforce Pod Security level restricted.")

var (
	groupNodes = prometheus.NewDesc("vdi_agent_node_group_nodes",
		"Nodes of the node group by state: usable, provisioning (requested or not usable yet), or growable (that may still be added).", []string{"group", "state"}, nil)
	groupExhausted = prometheus.NewDesc("vdi_agent_node_group_exhausted",
		"1 for the reason for which the node group adds no node for now, 0 for the other reasons.", []string{"group", "reason"}, nil)
	nodeProvisioning = prometheus.NewDesc("vdi_agent_node_provisioning_seconds",
		"How long a node of the node group usually takes, from the creation of a Pod until a new node has it: the 90th percentile of the last 20, or what is declared.", []string{"group"}, nil)
	groupWaiting = prometheus.NewDesc("vdi_agent_node_group_waiting_seconds",
		"How long the session that has waited the longest for a node of the node group has waited; 0 if none waits.", []string{"group"}, nil)

	groupMetrics = &groupCollector{}
)

func init() { metrics.Register(groupMetrics) }

// groupCollector reports the node groups of this process's watcher at each scrape.
type groupCollector struct {
	watcher atomic.Pointer[Watcher]
}

// Describe sends the descriptions of the metrics (prometheus.Collector).
func (c *groupCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{groupNodes, groupExhausted, nodeProvisioning, groupWaiting} {
		out <- d
	}
}

// Collect sends one set of series per node group that is reported (prometheus.Collector).
func (c *groupCollector) Collect(out chan<- prometheus.Metric) {
	w := c.watcher.Load()
	if w == nil {
		return
	}
	groups, waiting := measuredGroups(w, time.Now())
	gauge := func(of *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, labels...)
	}
	for i := range groups {
		g := &groups[i]
		gauge(groupNodes, float64(g.Nodes), g.Name, "usable")
		gauge(groupNodes, float64(len(g.Provisioning)), g.Name, "provisioning")
		gauge(groupNodes, float64(g.Growable), g.Name, "growable")
		for _, reason := range []string{nodegroup.ReasonInsufficientCapacity, nodegroup.ReasonNotTriggered, nodegroup.ReasonProvisioningTimeout} {
			value := 0.0
			if g.State == nodegroup.StateExhausted && g.Reason == reason {
				value = 1
			}
			gauge(groupExhausted, value, g.Name, reason)
		}
		gauge(nodeProvisioning, g.Usual.Seconds(), g.Name)
		gauge(groupWaiting, waiting[g.Name].Seconds(), g.Name)
	}
}

// measuredGroups returns the node groups as they were last reported, and for each how long the session that has
// waited the longest for a node of it has waited.
func measuredGroups(w *Watcher, now time.Time) (groups []nodegroup.Group, longest map[string]time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.model.growth
	if g == nil {
		return nil, nil
	}
	longest = map[string]time.Duration{}
	for uid, d := range g.depends {
		if !d.isGrowth() || !isUnschedulable(w.model, uid) {
			continue
		}
		since := w.model.pods[uid].Times.Unschedulable
		if d.from.After(since) {
			since = d.from
		}
		longest[d.group] = max(longest[d.group], now.Sub(since))
	}
	return g.reported(), longest
}
