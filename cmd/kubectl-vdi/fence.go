package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func fenceCommand(c *cluster) *cobra.Command {
	yes := false
	cmd := memberCommand(c, "fence NAME", "Declare that nothing runs in a member any more, so that its sessions are rescheduled at once",
		func(cmd *cobra.Command, api client.WithWatch, member *v1alpha1.MemberCluster) error {
			return c.fence(cmd, api, member, yes)
		})
	cmd.Long = "Declare that nothing runs in a member any more: it is powered off, and you have looked. Its sessions are\n" +
		"rescheduled at once, also those of the modes Hold and Fence, which otherwise wait. If something does run there\n" +
		"after all, those sessions run twice, and two desktops may write what they share. What is in homes in that\n" +
		"cluster stays there. The declaration is of that one cluster and in your name; the hub takes it away when the\n" +
		"cluster's agent is back, and then has stopped what is left there."
	cmd.Flags().BoolVar(&yes, "yes", false, "Do not ask.")
	return cmd
}

// fence declares a member fenced.
func (c *cluster) fence(cmd *cobra.Command, api client.WithWatch, member *v1alpha1.MemberCluster, yes bool) error {
	ctx := cmd.Context()
	if f := member.Spec.Fenced; f != nil && f.Fingerprint == member.Status.Fingerprint {
		return c.answer(cmd.OutOrStdout(), fencedResult(member, nil, false),
			fmt.Sprintf("Member %s: nothing to do, %s has declared it fenced at %s.", member.Name, f.By, f.At.UTC().Format("2006-01-02T15:04:05Z")))
	}
	if err := checkFenceable(member); err != nil {
		return err
	}
	released, err := sessionsOf(ctx, api, member)
	if err != nil {
		return err
	}
	if !yes {
		if err := confirm(cmd, member, released); err != nil {
			return err
		}
	}
	user, err := whoAmI(ctx, api)
	if err != nil {
		return err
	}
	_, err = edit(ctx, api, member, func(s *v1alpha1.MemberClusterSpec) {
		s.Fenced = &v1alpha1.FencedDeclaration{Fingerprint: member.Status.Fingerprint, By: user, At: metav1.Now().Rfc3339Copy()}
	})
	if err != nil {
		return err
	}
	return c.answer(cmd.OutOrStdout(), fencedResult(member, released, true), fmt.Sprintf(
		"Member %s is declared fenced by %s: %s rescheduled as far as there is capacity. Take it back with `kubectl vdi unfence %[1]s`.",
		member.Name, user, released.text()))
}

func fencedResult(member *v1alpha1.MemberCluster, released modes, changed bool) map[string]any {
	return map[string]any{"member": member.Name, "fenced": member.Spec.Fenced, "changed": changed, "released": released}
}

// checkFenceable returns why a member can't be declared fenced; nil: it can.
func checkFenceable(member *v1alpha1.MemberCluster) error {
	if member.Status.Fingerprint == "" {
		return fmt.Errorf("member %s has no fingerprint: its agent has never connected, and nothing of the fleet runs there", member.Name)
	}
	for _, kind := range []string{v1alpha1.ConditionConnected, v1alpha1.ConditionReady} {
		if is := meta.FindStatusCondition(member.Status.Conditions, kind); is != nil && is.Status == metav1.ConditionTrue {
			return fmt.Errorf("member %s is not off: its condition %s is True (%s). To take it out of use run `kubectl vdi drain %[1]s`; "+
				"to cut it off, `kubectl vdi revoke %[1]s`. If it went off just now, wait until the hub has noticed", member.Name, kind, is.Message)
		}
	}
	return nil
}

// modes are the numbers of sessions by failover mode.
type modes map[v1alpha1.FailoverMode]int

// sessionsOf returns the sessions that are placed in a member.
func sessionsOf(ctx context.Context, api client.Client, member *v1alpha1.MemberCluster) (modes, error) {
	list := &v1alpha1.VDISessionList{}
	if err := api.List(ctx, list, client.MatchingFields{"status.placement.clusterName": member.Name}); err != nil {
		return nil, explain(err, "counting the sessions of "+member.Name)
	}
	out := modes{}
	for i := range list.Items {
		if at := list.Items[i].Status.Placement; at != nil && at.ClusterUID == member.UID {
			out[at.FailoverMode]++
		}
	}
	return out, nil
}

// text returns the number of sessions as text.
func (m modes) text() string {
	total := 0
	var parts []string
	for _, mode := range []v1alpha1.FailoverMode{v1alpha1.FailoverHold, v1alpha1.FailoverFence, v1alpha1.FailoverRestart, ""} {
		if n := m[mode]; n > 0 {
			total += n
			if mode == "" {
				mode = "an unknown mode"
			}
			parts = append(parts, fmt.Sprintf("%d of %s", n, mode))
		}
	}
	switch total {
	case 0:
		return "no session is"
	case 1:
		return "1 session (" + parts[0] + ") is"
	}
	return fmt.Sprintf("%d sessions (%s) are", total, strings.Join(parts, ", "))
}

// confirm requires the member's name as input.
func confirm(cmd *cobra.Command, member *v1alpha1.MemberCluster, released modes) error {
	out := cmd.ErrOrStderr()
	fmt.Fprintf(out, "You are about to say that nothing runs in cluster %s, member %s, any more: %s rescheduled at once.\n"+
		"If something does run there, it runs twice from then on. Have you looked that it is off?\n"+
		"Type the name of the member to go on: ", member.Status.Fingerprint, member.Name, released.text())
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if strings.TrimSpace(line) == member.Name {
		return nil
	}
	if err != nil && line == "" {
		return errors.New("not declared fenced: there was no answer; give --yes where none can be given")
	}
	return fmt.Errorf("not declared fenced: %q is not %s", strings.TrimSpace(line), member.Name)
}

// whoAmI returns the name of the user in the hub's cluster.
func whoAmI(ctx context.Context, api client.Client) (string, error) {
	me := &authenticationv1.SelfSubjectReview{}
	if err := api.Create(ctx, me); err != nil {
		return "", explain(err, "asking the hub's cluster who you are")
	}
	if me.Status.UserInfo.Username == "" {
		return "", errors.New("the hub's cluster does not say who you are, and a member is declared fenced in one's own name")
	}
	return me.Status.UserInfo.Username, nil
}

func unfenceCommand(c *cluster) *cobra.Command {
	return memberCommand(c, "unfence NAME", "Take back that a member is fenced",
		func(cmd *cobra.Command, api client.WithWatch, member *v1alpha1.MemberCluster) error {
			changed, err := edit(cmd.Context(), api, member, func(s *v1alpha1.MemberClusterSpec) { s.Fenced = nil })
			if err != nil {
				return err
			}
			text := fmt.Sprintf("Member %s is not declared fenced any more. Sessions that were rescheduled stay where they are now; "+
				"what is left of them there is stopped when its agent is back.", member.Name)
			if !changed {
				text = fmt.Sprintf("Member %s: nothing to do, it is not declared fenced.", member.Name)
			}
			return c.answer(cmd.OutOrStdout(), map[string]any{"member": member.Name, "changed": changed}, text)
		})
}
