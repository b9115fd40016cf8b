package main

import (
	"context"
	"fmt"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// checkNodes compares the nodes that were added with those that the sessions need. Each member may have
// one that is not full.
func (f *fleet) checkNodes(ctx context.Context) error {
	nodes := 0
	for _, m := range f.Members {
		claims, err := m.ControlPlane.Karpenter.NodePools.NodeClaims(ctx, group)
		if err != nil {
			return fmt.Errorf("listing the nodes of %s: %w", m.Name, err)
		}
		fmt.Printf("  %-40s %8d\n", "nodes that "+m.Name+" has added", len(claims))
		nodes += len(claims)
	}
	needed := (f.options.sessions + perNode - 1) / perNode
	f.atMost("nodes that were added", float64(nodes), float64(needed+spareNodes))
	return nil
}

// checkWrites counts what hub and agents have written for a session, apart from events.
func (f *fleet) checkWrites(context.Context) error {
	count := func(cp *harness.ControlPlane, user string) (int, error) {
		counts, err := harness.CountWrites(cp.AuditLog(), harness.CountOptions{Offset: f.marks[cp], Users: []string{user}})
		for _, c := range counts {
			if c.Count >= f.options.sessions/10 {
				fmt.Printf("    %s: %s %s: %d\n", cp.Name, c.Verb, c.Resource, c.Count)
			}
		}
		return harness.Total(counts), err
	}
	hub, err := count(f.Hub.ControlPlane, harness.HubUser)
	if err != nil {
		return err
	}
	members := 0
	for _, m := range f.Members {
		n, err := count(m.ControlPlane, harness.AgentUser)
		if err != nil {
			return err
		}
		members += n
	}
	f.atMost("hub writes a session", float64(hub)/float64(f.options.sessions), hubWrites)
	f.atMost("member writes a session", float64(members)/float64(f.options.sessions), memberWrites)
	return nil
}
