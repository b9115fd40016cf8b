package main

import (
	"context"
	"fmt"
)

// grows is the region whose Karpenter adds nodes of a NodePool.
const (
	grows    = "ap-south"
	nodePool = "workstations"
)

// declareNodes declares the node group of a region that has no node of it.
func (c *console) declareNodes(ctx context.Context) error {
	c.announce("%s has no node for a workstation, but a node group: its Karpenter, a real one, may add two", grows)
	group := fmt.Sprintf(`{"spec":{"nodeGroups":[{"name":%q,"karpenterNodePool":%q,"maxNodes":2,"provisioningTime":"10s","node":{"allocatable":{"cpu":"15900m","memory":"60Gi","ephemeral-storage":"500Gi","pods":"110"}}}]}}`, nodePool, nodePool)
	if _, err := c.show(ctx, "hub", "patch", "membercluster", grows, "--type=merge", "-p", group); err != nil {
		return err
	}
	if err := c.expect(ctx, "membercluster/"+grows, ".status.growableNodes", "2"); err != nil {
		return err
	}
	_, err := c.show(ctx, "hub", "get", "memberclusters")
	return err
}

// grow shows a session for which no region has a free slot, and the node that is added for it.
func (d *demo) grow(ctx context.Context) error {
	const session = "peggy-workstation"
	d.announce("A session for which no region has a free slot: it is placed in %s, which adds a node for it", grows)
	if _, err := d.show(ctx, "hub", "apply", "-f", "test/demo/grow.yaml"); err != nil {
		return err
	}
	if err := d.expect(ctx, "vdisession/"+session, `.status.conditions[?(@.type=="PodReady")].reason`, "NodeProvisioning"); err != nil {
		return err
	}
	if _, err := d.show(ctx, "hub", "get", "vdisession", session, "-n", namespace, "-o", `jsonpath={.status.phase}: {.status.message}`); err != nil {
		return err
	}
	if err := d.phase(ctx, session, "Running"); err != nil {
		return err
	}
	if err := d.expect(ctx, "vdisession/"+session, ".status.placement.clusterName", grows); err != nil {
		return err
	}
	if _, err := d.show(ctx, grows, "get", "nodes", "-l", "pool="+nodePool); err != nil {
		return err
	}
	if err := d.expect(ctx, "membercluster/"+grows, ".status.growableNodes", "1"); err != nil {
		return err
	}
	if _, err := d.show(ctx, "hub", "get", "memberclusters"); err != nil {
		return err
	}
	return d.remove(ctx, session)
}
