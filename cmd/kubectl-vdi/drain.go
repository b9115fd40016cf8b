package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// drainPoll is how often the progress of a drain is checked.
const drainPoll = 500 * time.Millisecond

// drainOptions are the options of a drain.
type drainOptions struct {
	deadline       time.Duration
	maxUnavailable int32
	wait           bool
	timeout        time.Duration
}

// drained is the result of a drain.
type drained struct {
	Member  string                `json:"member"`
	Limits  v1alpha1.DrainLimits  `json:"limits"`
	Drained bool                  `json:"drained"`
	Status  *v1alpha1.DrainStatus `json:"status,omitempty"`
	Message string                `json:"message,omitempty"`
}

func drainCommand(c *cluster) *cobra.Command {
	var o drainOptions
	cmd := memberCommand(c, "drain NAME", "Move a member's sessions to other members, and schedule no new ones there",
		func(cmd *cobra.Command, api client.WithWatch, member *v1alpha1.MemberCluster) error {
			return c.drain(cmd, api, member, o)
		})
	cmd.Long = "Move a member's sessions to other members, and schedule no new ones there. Idle and suspended sessions are\n" +
		"moved first. Users of the others are notified; their sessions are moved when they are idle, or at the deadline.\n" +
		"A session is moved once another member has capacity for it, and its desktop is restarted there. Sessions whose\n" +
		"homes are in the member stay, and are counted. Cancel it with `kubectl vdi uncordon`; moved sessions stay where\n" +
		"they are. Run it again to continue to wait, or with other limits to change them."
	cmd.Example = "  kubectl vdi drain eu-west --deadline 2h --max-unavailable 10"
	flags := cmd.Flags()
	flags.DurationVar(&o.deadline, "deadline", 0, "Time after which sessions in use are moved too; by default never.")
	flags.Int32Var(&o.maxUnavailable, "max-unavailable", 1, "Maximum number of sessions that are moved at once.")
	flags.BoolVar(&o.wait, "wait", true, "If true, wait until all sessions that can be moved are, and print the progress.")
	flags.DurationVar(&o.timeout, "timeout", 0, "Maximum time to wait; zero means no limit.")
	return cmd
}

// drain begins or continues a drain.
func (c *cluster) drain(cmd *cobra.Command, api client.WithWatch, member *v1alpha1.MemberCluster, o drainOptions) error {
	if o.maxUnavailable < 1 {
		return fmt.Errorf("--max-unavailable %d is less than 1", o.maxUnavailable)
	}
	if o.deadline < 0 {
		return fmt.Errorf("--deadline %s is negative", o.deadline)
	}
	begins := member.Spec.Scheduling != v1alpha1.SchedulingDraining
	_, err := edit(cmd.Context(), api, member, func(s *v1alpha1.MemberClusterSpec) {
		s.Scheduling = v1alpha1.SchedulingDraining
		if begins {
			s.Drain = v1alpha1.DrainLimits{}
		}
		if begins || cmd.Flags().Changed("max-unavailable") {
			s.Drain.MaxUnavailable = &o.maxUnavailable
		}
		if cmd.Flags().Changed("deadline") {
			at := metav1.NewTime(time.Now().Add(o.deadline)).Rfc3339Copy()
			s.Drain.Deadline = &at
		}
	})
	if err != nil {
		return err
	}
	if !o.wait {
		result := drained{Member: member.Name, Limits: member.Spec.Drain}
		return c.printResult(cmd.OutOrStdout(), result, fmt.Sprintf(
			"Member %s is being drained. Watch the progress with `kubectl vdi drain %[1]s` or in its condition Drained; cancel it with `kubectl vdi uncordon %[1]s`.", member.Name))
	}
	progress := cmd.OutOrStdout()
	if c.output == "json" {
		progress = cmd.ErrOrStderr()
	}
	if err := awaitDrained(cmd.Context(), api, member, o.timeout, progress); err != nil {
		return err
	}
	message := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionDrained).Message
	result := drained{Member: member.Name, Limits: member.Spec.Drain, Drained: true, Status: member.Status.Drain, Message: message}
	return c.printResult(cmd.OutOrStdout(), result, fmt.Sprintf("Member %s is drained: %s.", member.Name, message))
}

// awaitDrained waits until all sessions that can be moved are, and prints changes of the
// progress.
func awaitDrained(ctx context.Context, api client.Client, member *v1alpha1.MemberCluster, timeout time.Duration, progress io.Writer) error {
	if timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, timeout, errors.New("the drain continues"))
		defer stop()
	}
	message, generation := "", member.Generation
	err := wait.PollUntilContextCancel(ctx, drainPoll, true, func(ctx context.Context) (bool, error) {
		if err := api.Get(ctx, client.ObjectKeyFromObject(member), member); err != nil {
			return false, explain(err, "reading MemberCluster "+member.Name)
		}
		if member.Spec.Scheduling != v1alpha1.SchedulingDraining {
			return false, fmt.Errorf("the drain of %s was canceled: its scheduling is %s", member.Name, member.Spec.Scheduling)
		}
		c := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionDrained)
		if c == nil || c.ObservedGeneration < generation {
			return false, nil
		}
		switch {
		case c.Status == metav1.ConditionTrue:
			return true, nil
		case c.Reason == v1alpha1.ReasonSessionsRemain:
			return false, fmt.Errorf("member %s is not empty, and no more sessions can be moved now: %s", member.Name, c.Message)
		case c.Message != message:
			message = c.Message
			fmt.Fprintln(progress, escaped(message))
		}
		return false, nil
	})
	if err != nil && wait.Interrupted(err) {
		if message == "" {
			message = "the hub has reported no progress: check that it runs and has a leader"
		}
		return fmt.Errorf("member %s is not drained yet (%s); the drain continues: cancel it with `kubectl vdi uncordon %[1]s`", member.Name, message)
	}
	return err
}
