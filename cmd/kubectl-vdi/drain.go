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
	cmd := memberCommand(c, "drain NAME", "Move a member's sessions to others, and take no new ones",
		func(cmd *cobra.Command, api client.WithWatch, member *v1alpha1.MemberCluster) error {
			return c.drain(cmd, api, member, o)
		})
	cmd.Long = "Move a member's sessions to others, and take no new ones. Those that nobody uses, and those that are\n" +
		"suspended, go first. Users of the others are notified; they are moved when they are idle, or at the deadline.\n" +
		"A session moves once another member has capacity for it; its desktop is restarted there. Sessions whose homes\n" +
		"are in the member stay, and are counted. Call it off with `kubectl vdi uncordon`; what has left stays away.\n" +
		"Run it again to wait on, or with other limits to change them."
	cmd.Example = "  kubectl vdi drain eu-west --deadline 2h --max-unavailable 10"
	flags := cmd.Flags()
	flags.DurationVar(&o.deadline, "deadline", 0, "After how long sessions in use are moved as well; by default they never are.")
	flags.Int32Var(&o.maxUnavailable, "max-unavailable", 1, "How many sessions may be on the move at once.")
	flags.BoolVar(&o.wait, "wait", true, "Wait until all that can leave have, and show how far it is.")
	flags.DurationVar(&o.timeout, "timeout", 0, "How long to wait at the most; 0: for ever.")
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
		return c.answer(cmd.OutOrStdout(), result, fmt.Sprintf(
			"Member %s is being drained. See how far it is with `kubectl vdi drain %[1]s`, or in its condition Drained; call it off with `kubectl vdi uncordon %[1]s`.", member.Name))
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
	return c.answer(cmd.OutOrStdout(), result, fmt.Sprintf("Member %s is drained: %s.", member.Name, message))
}

// awaitDrained waits until all sessions that can be moved are, and reports the progress
// whenever it changes.
func awaitDrained(ctx context.Context, api client.Client, member *v1alpha1.MemberCluster, timeout time.Duration, progress io.Writer) error {
	if timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, timeout, errors.New("the draining goes on"))
		defer stop()
	}
	message, generation := "", member.Generation
	err := wait.PollUntilContextCancel(ctx, drainPoll, true, func(ctx context.Context) (bool, error) {
		if err := api.Get(ctx, client.ObjectKeyFromObject(member), member); err != nil {
			return false, explain(err, "reading MemberCluster "+member.Name)
		}
		if member.Spec.Scheduling != v1alpha1.SchedulingDraining {
			return false, fmt.Errorf("the draining of %s was called off: its scheduling is %s", member.Name, member.Spec.Scheduling)
		}
		c := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionDrained)
		if c == nil || c.ObservedGeneration < generation {
			return false, nil
		}
		switch {
		case c.Status == metav1.ConditionTrue:
			return true, nil
		case c.Reason == v1alpha1.ReasonSessionsRemain:
			return false, fmt.Errorf("member %s is not empty, and nothing more can leave it now: %s", member.Name, c.Message)
		case c.Message != message:
			message = c.Message
			fmt.Fprintln(progress, escaped(message))
		}
		return false, nil
	})
	if err != nil && wait.Interrupted(err) {
		if message == "" {
			message = "the hub has not said how far it is: does it run, and lead?"
		}
		return fmt.Errorf("member %s is not drained yet (%s); the draining goes on: call it off with `kubectl vdi uncordon %[1]s`", member.Name, message)
	}
	return err
}
