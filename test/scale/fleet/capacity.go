package main

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Nodes of a member, each a large virtual machine.
const (
	nodes      = 100
	nodeCPU    = 64_000
	nodeMemory = 256 << 30
	nodePods   = 110
)

// reportDebounce is agent/capacity's.
const reportDebounce = 250 * time.Millisecond

// capacity is the free capacity of a simulated member. A desktop uses the node with the most
// free CPU, as kube-scheduler spreads them.
type capacity struct {
	free      [nodes]usage
	used      map[string]placed
	templates []template
	// namespaces whose sessions the member admits.
	namespaces []string
	sequence   uint64
	report     *fleetv1.CapacityReport
	// scheduled is set if a report will be built.
	scheduled bool
}

type usage struct{ cpu, memory, disk, pods int64 }

type placed struct {
	node int
	usage
}

type template struct {
	name, revision string
	usage
}

func newCapacity(namespaces []string) capacity {
	c := capacity{used: map[string]placed{}, namespaces: namespaces}
	for i := range c.free {
		c.free[i] = usage{cpu: nodeCPU, memory: nodeMemory, disk: nodeMemory, pods: nodePods}
	}
	return c
}

func usageOf(requests corev1.ResourceList) usage {
	return usage{
		cpu: requests.Cpu().MilliValue(), memory: requests.Memory().Value(),
		disk: requests.StorageEphemeral().Value(), pods: 1,
	}
}

func (u usage) minus(v usage, n int64) usage {
	return usage{u.cpu - n*v.cpu, u.memory - n*v.memory, u.disk - n*v.disk, u.pods - n*v.pods}
}

// fits returns how many v fit.
func (u usage) fits(v usage) int64 {
	return min(u.pods, u.cpu/max(v.cpu, 1), u.memory/max(v.memory, 1), u.disk/max(v.disk, 1))
}

func (c *capacity) add(name string, requests corev1.ResourceList) {
	most := 0
	for i := range c.free {
		if c.free[i].cpu > c.free[most].cpu {
			most = i
		}
	}
	u := usageOf(requests)
	c.used[name], c.free[most] = placed{most, u}, c.free[most].minus(u, 1)
}

func (c *capacity) remove(name string) {
	if p, ok := c.used[name]; ok {
		delete(c.used, name)
		c.free[p.node] = c.free[p.node].minus(p.usage, -1)
	}
}

// build builds the next report.
func (c *capacity) build(assignments int) {
	groups := map[usage]int32{}
	for _, free := range c.free {
		groups[free]++
	}
	var buckets []*fleetv1.Bucket
	for free, count := range groups {
		buckets = append(buckets, &fleetv1.Bucket{Nodes: count, Free: map[string]int64{
			"cpu": free.cpu, "memory": free.memory, "ephemeral-storage": free.disk, "pods": free.pods,
		}})
	}
	slices.SortFunc(buckets, func(a, b *fleetv1.Bucket) int { return cmp.Compare(b.Free["cpu"], a.Free["cpu"]) })
	c.sequence++
	c.report = &fleetv1.CapacityReport{Sequence: c.sequence, Nodes: nodes, AdmittedNamespaces: c.namespaces, Assignments: int32(assignments)}
	for i, t := range c.templates {
		var slots int64
		for free, count := range groups {
			slots += int64(count) * free.fits(t.usage)
		}
		// All templates may use the same nodes, and the first has their buckets.
		one := &fleetv1.TemplateCapacity{Name: t.name, Revision: t.revision, Available: true, Slots: int32(slots)}
		if i == 0 {
			one.Buckets = buckets
		} else {
			one.BucketsOf = convert.TemplateRef(c.templates[0].name, c.templates[0].revision)
		}
		c.report.Templates = append(c.report.Templates, one)
	}
}

// requireReport schedules a report, and returns its number. The member's lock is held.
func (m *member) requireReport() uint64 {
	c := &m.capacity
	if !c.scheduled && c.templates != nil {
		c.scheduled = true
		time.AfterFunc(reportDebounce, func() {
			m.mu.Lock()
			c.scheduled = false
			c.build(len(m.assignments))
			m.mu.Unlock()
			m.hub.CapacityChanged()
		})
	}
	return c.sequence + 1
}

// Report implements link.Capacity.
func (m *member) Report() *fleetv1.CapacityReport {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.capacity.report
}

// NextSequence implements link.Capacity.
func (m *member) NextSequence() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requireReport()
}

// SetTemplates implements link.Capacity.
func (m *member) SetTemplates(set *fleetv1.TemplateSet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fleet.templateSets.Add(1)
	m.capacity.templates = []template{}
	for _, t := range set.GetTemplates() {
		requests, err := convert.ResourcesFromWire(t.GetResources())
		if err != nil {
			m.fleet.fail("%s receives a template that it can't read: %w", m.name, err)
		}
		m.capacity.templates = append(m.capacity.templates, template{t.GetName(), t.GetRevision(), usageOf(requests)})
	}
	m.requireReport()
}
