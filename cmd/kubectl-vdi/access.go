package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// accessCommand is revoke or allow.
func accessCommand(c *cluster, verb string, access v1alpha1.MemberAccess) *cobra.Command {
	short, after := "End a member's connection and make its certificates invalid for good",
		"Member %s is revoked: its connection ends, its certificates are invalid, its sessions follow their modes."
	if access == v1alpha1.AccessAllowed {
		short = "Let a revoked member join again, once the hub has taken its revocation in"
		after = "Member %s is allowed. Its old certificates stay invalid: join it again with `kubectl vdi join %[1]s ...`."
	}
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			member := &v1alpha1.MemberCluster{}
			if err := api.Get(cmd.Context(), client.ObjectKey{Name: args[0]}, member); err != nil {
				return explain(err, "reading MemberCluster "+args[0])
			}
			changed := member.Spec.Access != access
			if changed && access == v1alpha1.AccessAllowed {
				if err := c.awaitRevoked(cmd.Context(), api, member); err != nil {
					return err
				}
			}
			if changed {
				before := member.DeepCopy()
				member.Spec.Access = access
				if err := api.Patch(cmd.Context(), member, client.MergeFrom(before)); err != nil {
					return explain(err, "changing MemberCluster "+args[0])
				}
			}
			result := map[string]any{"member": member.Name, "access": access, "changed": changed}
			words := fmt.Sprintf(after, member.Name)
			if !changed {
				words = fmt.Sprintf("Member %s: nothing to do, its access is %s.", member.Name, access)
			}
			return c.answer(cmd.OutOrStdout(), result, words)
		},
	}
}

const (
	// revocationPatience is how long the hub gets to take a revocation in, and
	// revocationPoll how often it is asked.
	revocationPatience = 30 * time.Second
	revocationPoll     = 200 * time.Millisecond
)

// awaitRevoked waits until the hub has taken in that a member is revoked, and
// member is as it is then. Were it allowed again before, the hub might never see
// that it was not, and what it had would be valid still.
func (c *cluster) awaitRevoked(ctx context.Context, api client.Client, member *v1alpha1.MemberCluster) error {
	patience := c.patience
	if patience == 0 {
		patience = revocationPatience
	}
	left := ""
	err := wait.PollUntilContextTimeout(ctx, revocationPoll, patience, true, func(ctx context.Context) (done bool, err error) {
		if err := api.Get(ctx, client.ObjectKeyFromObject(member), member); err != nil {
			return false, explain(err, "reading MemberCluster "+member.Name)
		}
		if member.Spec.Access != v1alpha1.AccessRevoked {
			return true, nil // somebody else has allowed it meanwhile
		}
		if left = unseen(member); left != "" {
			return false, nil
		}
		left, err = c.tokenOf(ctx, api, member)
		return left == "", err
	})
	if err != nil && left != "" && ctx.Err() == nil && wait.Interrupted(err) {
		return fmt.Errorf("member %s is not allowed yet, for what it had would stay valid: after %s %s", member.Name, patience, left)
	}
	return err
}

// unseen is what tells that the hub has not seen a revocation; empty: it has, and
// no certificate from before is valid.
func unseen(member *v1alpha1.MemberCluster) string {
	enrolled := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionEnrolled)
	c := member.Status.Certificate
	switch {
	case member.Status.ObservedGeneration < member.Generation, enrolled == nil, enrolled.Reason != v1alpha1.ReasonRevoked,
		c != nil && len(c.Serials()) > 0:
		return fmt.Sprintf("the hub has not taken its revocation in (it has seen generation %d of %d): does the hub run, and lead?",
			member.Status.ObservedGeneration, member.Generation)
	}
	return ""
}

// tokenOf says which join token of a revoked member the hub has still to delete;
// empty: none.
func (c *cluster) tokenOf(ctx context.Context, api client.Client, member *v1alpha1.MemberCluster) (string, error) {
	tokens := &corev1.SecretList{}
	err := api.List(ctx, tokens, client.InNamespace(c.namespace), client.MatchingFields{"type": string(v1alpha1.JoinTokenType)})
	if err != nil {
		return "", explain(err, "listing the join tokens in namespace "+c.namespace)
	}
	for i := range tokens.Items {
		if string(tokens.Items[i].Data[v1alpha1.JoinTokenMemberUID]) == string(member.UID) {
			return fmt.Sprintf("its join token is still there: delete Secret %s/%s", c.namespace, tokens.Items[i].Name), nil
		}
	}
	return "", nil
}

func rotateCommand(c *cluster) *cobra.Command {
	return &cobra.Command{
		Use: "rotate-ca", Short: "Have the hub replace its certificate authority, with an overlap", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			secret := &corev1.Secret{}
			key := client.ObjectKey{Namespace: c.namespace, Name: v1alpha1.AuthoritySecret}
			if err := api.Get(cmd.Context(), key, secret); err != nil {
				return fmt.Errorf("reading the hub's CA (does the hub run, and issue certificates itself?): %w", err)
			}
			before := secret.DeepCopy()
			if secret.Annotations == nil {
				secret.Annotations = map[string]string{}
			}
			secret.Annotations[v1alpha1.AnnotationRotateCA] = time.Now().UTC().Format(time.RFC3339)
			if err := api.Patch(cmd.Context(), secret, client.MergeFrom(before)); err != nil {
				return fmt.Errorf("asking the hub to rotate its CA: %w", err)
			}
			return c.answer(cmd.OutOrStdout(), map[string]any{"secret": key.String(), "requested": true},
				"The hub was asked to rotate its CA. Agents rotate their certificates by themselves; the old CA goes when all have.")
		},
	}
}
