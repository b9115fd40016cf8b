package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// memberCommand returns a command on a member, by its name.
func memberCommand(c *cluster, use, short string, run func(*cobra.Command, client.WithWatch, *v1alpha1.MemberCluster) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			member := &v1alpha1.MemberCluster{}
			if err := api.Get(cmd.Context(), client.ObjectKey{Name: args[0]}, member); err != nil {
				return explain(err, "reading MemberCluster "+args[0])
			}
			return run(cmd, api, member)
		},
	}
}

// edit patches a member's spec, and returns false if nothing changed.
func edit(ctx context.Context, api client.Client, member *v1alpha1.MemberCluster, change func(*v1alpha1.MemberClusterSpec)) (bool, error) {
	before := member.DeepCopy()
	change(&member.Spec)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	data, err := client.MergeFrom(before).Data(member)
	if err != nil || string(data) == "{}" {
		return false, err
	}
	if err := api.Patch(ctx, member, patch); err != nil {
		return false, explain(err, "changing MemberCluster "+member.Name)
	}
	return true, nil
}

func cordonCommand(c *cluster) *cobra.Command {
	return memberCommand(c, "cordon NAME", "Mark a member as unschedulable; its sessions keep running",
		func(cmd *cobra.Command, api client.WithWatch, member *v1alpha1.MemberCluster) error {
			return c.schedule(cmd, api, member, v1alpha1.SchedulingCordoned,
				"Member %s is cordoned: no new sessions are placed there, its sessions keep running. Revert it with `kubectl vdi uncordon %[1]s`.")
		})
}

func uncordonCommand(c *cluster) *cobra.Command {
	return memberCommand(c, "uncordon NAME", "Mark a member as schedulable, and cancel its drain",
		func(cmd *cobra.Command, api client.WithWatch, member *v1alpha1.MemberCluster) error {
			return c.schedule(cmd, api, member, v1alpha1.SchedulingActive,
				"Member %s accepts sessions again. Sessions that were moved stay where they are: `kubectl vdi rebalance` moves idle ones.")
		})
}

// schedule sets whether a member accepts sessions.
func (c *cluster) schedule(cmd *cobra.Command, api client.Client, member *v1alpha1.MemberCluster, to v1alpha1.SchedulingState, after string) error {
	changed, err := edit(cmd.Context(), api, member, func(s *v1alpha1.MemberClusterSpec) {
		s.Scheduling = to
		if to == v1alpha1.SchedulingActive {
			s.Drain = v1alpha1.DrainLimits{}
		}
	})
	if err != nil {
		return err
	}
	text := fmt.Sprintf(after, member.Name)
	if !changed {
		text = fmt.Sprintf("Member %s: nothing to do, its scheduling is %s.", member.Name, to)
	}
	return c.printResult(cmd.OutOrStdout(), map[string]any{"member": member.Name, "scheduling": to, "changed": changed}, text)
}
