package clusterautoscaler

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

// Options configure the autoscaler of one cluster.
type Options struct {
	// Groups that it may add nodes to, the preferred ones first.
	Groups []Group
	// ScanInterval is the time between scans, by default 1 s; that of cluster-autoscaler is 10 s.
	ScanInterval time.Duration
	// Backoff is how long a group without capacity is not used at first, by default 5 minutes. It doubles
	// with each failure, up to six times that.
	Backoff time.Duration
}

// Group is a node group.
type Group struct {
	Name string
	// MaxSize is the most nodes that it may have.
	MaxSize int
	// Delay is the time from the request of a node until it is registered; by default none.
	Delay time.Duration
	// Node describes its nodes; Count and Prefix are not used.
	Node kwok.NodeGroup
}

// In returns the options with a region and a zone for the nodes of groups that have none.
func (o Options) In(region, zone string) Options {
	o.Groups = slices.Clone(o.Groups)
	for i := range o.Groups {
		n := &o.Groups[i].Node
		n.Region, n.Zone = cmp.Or(n.Region, region), cmp.Or(n.Zone, zone)
	}
	return o
}

// WithDefaults returns the options with defaults. It rejects groups that share a name, or that
// could never have a node.
func (o Options) WithDefaults() (Options, error) {
	o.ScanInterval = cmp.Or(o.ScanInterval, time.Second)
	o.Backoff = cmp.Or(o.Backoff, 5*time.Minute)
	if len(o.Groups) == 0 {
		return o, errors.New("cluster-autoscaler: no node groups")
	}
	names := map[string]bool{}
	for _, g := range o.Groups {
		switch {
		case g.Name == "" || names[g.Name]:
			return o, fmt.Errorf("cluster-autoscaler: group %q has no name of its own", g.Name)
		case g.MaxSize < 1:
			return o, fmt.Errorf("cluster-autoscaler: group %s has no maximum size", g.Name)
		}
		names[g.Name] = true
	}
	return o, nil
}

// shape returns an empty node of the group.
func (g *Group) shape(name string) *corev1.Node {
	node := g.Node.Named(name)
	node.Spec.ProviderID = providerID(g.Name, name)
	return node
}

// providerID returns the provider ID of a node, which is how its group is found.
func providerID(group, node string) string { return providerPrefix + group + "/" + node }

const providerPrefix = "clusterautoscaler://"
