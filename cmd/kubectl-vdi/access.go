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

// accessCommand returns the command revoke or allow.
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
			text := fmt.Sprintf(after, member.Name)
			if !changed {
				text = fmt.Sprintf("Member %s: nothing to do, its access is %s.", member.Name, access)
			}
			return c.answer(cmd.OutOrStdout(), result, text)
		},
	}
}

const (
	// revocationTimeout is how long the hub has to process a revocation, and
	// revocationPoll how often that is checked.
	revocationTimeout = 30 * time.Second
	revocationPoll    = 200 * time.Millisecond
)

// awaitRevoked waits until the hub has processed the revocation of a member, and updates
// member. If the member were allowed again earlier, the hub might miss the revocation,
// and earlier credentials would still be valid.
func (c *cluster) awaitRevoked(ctx context.Context, api client.Client, member *v1alpha1.MemberCluster) error {
	timeout := c.revocationTimeout
	if timeout == 0 {
		timeout = revocationTimeout
	}
	left := ""
	err := wait.PollUntilContextTimeout(ctx, revocationPoll, timeout, true, func(ctx context.Context) (done bool, err error) {
		if err := api.Get(ctx, client.ObjectKeyFromObject(member), member); err != nil {
			return false, explain(err, "reading MemberCluster "+member.Name)
		}
		if member.Spec.Access != v1alpha1.AccessRevoked {
			return true, nil // it has been allowed again meanwhile
		}
		if left = unseen(member); left != "" {
			return false, nil
		}
		left, err = c.tokenOf(ctx, api, member)
		return left == "", err
	})
	if err != nil && left != "" && ctx.Err() == nil && wait.Interrupted(err) {
		return fmt.Errorf("member %s is not allowed yet, for what it had would stay valid: after %s %s", member.Name, timeout, left)
	}
	return err
}

// unseen returns how it shows that the hub has not processed a revocation; empty: it has,
// and no earlier certificate is valid.
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

// tokenOf returns the join token of a revoked member that the hub has not deleted yet;
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
