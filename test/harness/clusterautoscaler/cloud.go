package clusterautoscaler

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// Fault is the error with which the cloud of a group provides no node; the zero value is none.
type Fault struct {
	// ErrorCode and ErrorMessage are those that cluster-autoscaler reports, such as
	// RESOURCE_POOL_EXHAUSTED.
	ErrorCode, ErrorMessage string
}

// cloud has the instances that the groups have requested and that have no node yet.
type cloud struct {
	mu        sync.Mutex
	instances []*instance
	faults    map[string]Fault
	// requested counts the instances of a group, for their names.
	requested map[string]int
}

// instance is a requested node.
type instance struct {
	group, node string
	// due is when its node registers. It does not if it has failed.
	due    time.Time
	failed Fault
	// created is set once the node was created, which a cache may not show yet.
	created bool
}

func newCloud() *cloud {
	return &cloud{faults: map[string]Fault{}, requested: map[string]int{}}
}

func (c *cloud) setFault(group string, f Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[group] = f
}

// request requests nodes of a group.
func (c *cloud) request(g *Group, count int, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range count {
		c.requested[g.Name]++
		c.instances = append(c.instances, &instance{
			group: g.Name, node: fmt.Sprintf("%s-%d", g.Name, c.requested[g.Name]), due: now.Add(g.Delay), failed: c.faults[g.Name],
		})
	}
}

// due returns the instances whose nodes are to be created now.
func (c *cloud) due(now time.Time) (out []instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		if !i.created && i.failed == (Fault{}) && !now.Before(i.due) {
			out = append(out, *i)
		}
	}
	return out
}

// setCreated records that the node of an instance was created.
func (c *cloud) setCreated(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, i := range c.instances {
		if i.node == node {
			i.created = true
		}
	}
}

// observed is what has become of the instances that were requested.
type observed struct {
	// requested is how many of a group have no node yet.
	requested map[string]int
	// registered are the groups of which a node has registered since the last call, and failed the faults of
	// those of which an instance has failed.
	registered map[string]bool
	failed     map[string]Fault
}

// observe forgets the instances whose nodes exist, and those that have failed.
func (c *cloud) observe(exists func(node string) bool) observed {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := observed{requested: map[string]int{}, registered: map[string]bool{}, failed: map[string]Fault{}}
	c.instances = slices.DeleteFunc(c.instances, func(i *instance) bool {
		switch {
		case i.failed != (Fault{}):
			out.failed[i.group] = i.failed
			return true
		case exists(i.node):
			out.registered[i.group] = true
			return true
		}
		out.requested[i.group]++
		return false
	})
	return out
}
