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
	cmd := memberCommand(c, "fence NAME", "Declare that nothing runs in a member, so that its sessions are rescheduled at once",
		func(cmd *cobra.Command, api client.WithWatch, member *v1alpha1.MemberCluster) error {
			return c.fence(cmd, api, member, yes)
		})
	cmd.Long = "Declare that nothing runs in a member, after you have verified that it is powered off. Its sessions are\n" +
		"rescheduled at once, including those of the modes Hold and Fence, which otherwise wait. If desktops do run\n" +
		"there, their sessions run twice, and two desktops may write to shared data. Homes in that cluster stay there.\n" +
		"The declaration records your user name and the cluster's fingerprint. The hub removes it when the cluster's\n" +
		"agent reconnects, and stops the remaining desktops there."
	cmd.Flags().BoolVar(&yes, "yes", false, "If true, do not prompt for confirmation.")
	return cmd
}

// fence declares a member fenced.
func (c *cluster) fence(cmd *cobra.Command, api client.WithWatch, member *v1alpha1.MemberCluster, yes bool) error {
	ctx := cmd.Context()
	if f := member.Spec.Fenced; f != nil && f.Fingerprint == member.Status.Fingerprint {
		return c.printResult(cmd.OutOrStdout(), fencedResult(member, nil, false),
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
	user, err := currentUser(ctx, api)
	if err != nil {
		return err
	}
	_, err = edit(ctx, api, member, func(s *v1alpha1.MemberClusterSpec) {
		s.Fenced = &v1alpha1.FencedDeclaration{Fingerprint: member.Status.Fingerprint, By: user, At: metav1.Now().Rfc3339Copy()}
	})
	if err != nil {
		return err
	}
	return c.printResult(cmd.OutOrStdout(), fencedResult(member, released, true), fmt.Sprintf(
		"Member %s is declared fenced by %s: %s rescheduled as capacity permits. Revert it with `kubectl vdi unfence %[1]s`.",
		member.Name, user, released.text()))
}

func fencedResult(member *v1alpha1.MemberCluster, released modes, changed bool) map[string]any {
	return map[string]any{"member": member.Name, "fenced": member.Spec.Fenced, "changed": changed, "released": released}
}

// checkFenceable returns an error if a member can't be declared fenced.
func checkFenceable(member *v1alpha1.MemberCluster) error {
	if member.Status.Fingerprint == "" {
		return fmt.Errorf("member %s has no fingerprint: its agent has never connected, so no session runs there", member.Name)
	}
	for _, kind := range []string{v1alpha1.ConditionConnected, v1alpha1.ConditionReady} {
		if is := meta.FindStatusCondition(member.Status.Conditions, kind); is != nil && is.Status == metav1.ConditionTrue {
			return fmt.Errorf("member %s is not down: its condition %s is True (%s). To take it out of use run `kubectl vdi drain %[1]s`; "+
				"to revoke its access run `kubectl vdi revoke %[1]s`. If it just went down, wait until the condition shows that", member.Name, kind, is.Message)
		}
	}
	return nil
}

// modes are the numbers of sessions by failover mode.
type modes map[v1alpha1.FailoverMode]int

// sessionsOf returns the number of sessions that are placed in a member, by failover mode.
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
	fmt.Fprintf(out, "You are about to declare that nothing runs in cluster %s, member %s: %s rescheduled at once.\n"+
		"If desktops do run there, their sessions run twice. Verify that the cluster is powered off.\n"+
		"Type the name of the member to continue: ", member.Status.Fingerprint, member.Name, released.text())
	line, err := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	if strings.TrimSpace(line) == member.Name {
		return nil
	}
	if err != nil && line == "" {
		return errors.New("not declared fenced: no confirmation was entered; use --yes without a terminal")
	}
	return fmt.Errorf("not declared fenced: %q is not %s", strings.TrimSpace(line), member.Name)
}

// currentUser returns the name of the user in the hub's cluster.
func currentUser(ctx context.Context, api client.Client) (string, error) {
	me := &authenticationv1.SelfSubjectReview{}
	if err := api.Create(ctx, me); err != nil {
		return "", explain(err, "reading your user name from the hub's cluster")
	}
	if me.Status.UserInfo.Username == "" {
		return "", errors.New("the hub's cluster reports no user name, which the declaration requires")
	}
	return me.Status.UserInfo.Username, nil
}

func unfenceCommand(c *cluster) *cobra.Command {
	return memberCommand(c, "unfence NAME", "Revert the declaration that a member is fenced",
		func(cmd *cobra.Command, api client.WithWatch, member *v1alpha1.MemberCluster) error {
			changed, err := edit(cmd.Context(), api, member, func(s *v1alpha1.MemberClusterSpec) { s.Fenced = nil })
			if err != nil {
				return err
			}
			text := fmt.Sprintf("Member %s is not declared fenced any more. Rescheduled sessions stay where they are; "+
				"their remaining desktops are stopped when the agent reconnects.", member.Name)
			if !changed {
				text = fmt.Sprintf("Member %s: nothing to do, it is not declared fenced.", member.Name)
			}
			return c.printResult(cmd.OutOrStdout(), map[string]any{"member": member.Name, "changed": changed}, text)
		})
}
