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
	short, after := "Revoke a member's access and invalidate its certificates",
		"Member %s is revoked: its connection ends, its certificates are invalid, and its sessions follow their failover modes."
	if access == v1alpha1.AccessAllowed {
		short = "Allow a revoked member to join again, once the hub has processed its revocation"
		after = "Member %s is allowed. Its old certificates stay invalid: run `kubectl vdi join %[1]s ...` to join it again."
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
			return c.printResult(cmd.OutOrStdout(), result, text)
		},
	}
}

const (
	// revocationTimeout is how long to wait until the hub has processed a revocation, and
	// revocationPoll how often that is checked.
	revocationTimeout = 30 * time.Second
	revocationPoll    = 200 * time.Millisecond
)

// awaitRevoked waits until the hub has processed the revocation of a member, and updates
// member. If the member were allowed earlier, the hub could miss the revocation, and old
// credentials would be valid again.
func (c *cluster) awaitRevoked(ctx context.Context, api client.Client, member *v1alpha1.MemberCluster) error {
	timeout := c.revocationTimeout
	if timeout == 0 {
		timeout = revocationTimeout
	}
	pending := ""
	err := wait.PollUntilContextTimeout(ctx, revocationPoll, timeout, true, func(ctx context.Context) (done bool, err error) {
		if err := api.Get(ctx, client.ObjectKeyFromObject(member), member); err != nil {
			return false, explain(err, "reading MemberCluster "+member.Name)
		}
		if member.Spec.Access != v1alpha1.AccessRevoked {
			return true, nil // already allowed
		}
		if pending = pendingRevocation(member); pending != "" {
			return false, nil
		}
		pending, err = c.remainingToken(ctx, api, member)
		return pending == "", err
	})
	if err != nil && pending != "" && ctx.Err() == nil && wait.Interrupted(err) {
		return fmt.Errorf("member %s is not allowed yet, since its old credentials would stay valid: after %s %s", member.Name, timeout, pending)
	}
	return err
}

// pendingRevocation returns why the hub has not processed a revocation, and "" if it has and no
// old certificate is valid.
func pendingRevocation(member *v1alpha1.MemberCluster) string {
	enrolled := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionEnrolled)
	c := member.Status.Certificate
	switch {
	case member.Status.ObservedGeneration < member.Generation, enrolled == nil, enrolled.Reason != v1alpha1.ReasonRevoked,
		c != nil && len(c.Serials()) > 0:
		return fmt.Sprintf("the hub has not processed its revocation (it has observed generation %d of %d): check that the hub runs and has a leader",
			member.Status.ObservedGeneration, member.Generation)
	}
	return ""
}

// remainingToken returns the join token of a revoked member that the hub has not deleted yet, if
// any.
func (c *cluster) remainingToken(ctx context.Context, api client.Client, member *v1alpha1.MemberCluster) (string, error) {
	tokens := &corev1.SecretList{}
	err := api.List(ctx, tokens, client.InNamespace(c.namespace), client.MatchingFields{"type": string(v1alpha1.JoinTokenType)})
	if err != nil {
		return "", explain(err, "listing the join tokens in namespace "+c.namespace)
	}
	for i := range tokens.Items {
		if string(tokens.Items[i].Data[v1alpha1.JoinTokenMemberUID]) == string(member.UID) {
			return fmt.Sprintf("its join token still exists: delete Secret %s/%s", c.namespace, tokens.Items[i].Name), nil
		}
	}
	return "", nil
}

func rotateCommand(c *cluster) *cobra.Command {
	return &cobra.Command{
		Use: "rotate-ca", Short: "Rotate the hub's certificate authority, with an overlap", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			secret := &corev1.Secret{}
			key := client.ObjectKey{Namespace: c.namespace, Name: v1alpha1.AuthoritySecret}
			if err := api.Get(cmd.Context(), key, secret); err != nil {
				return fmt.Errorf("reading the hub's CA (check that the hub runs and issues certificates itself): %w", err)
			}
			before := secret.DeepCopy()
			if secret.Annotations == nil {
				secret.Annotations = map[string]string{}
			}
			secret.Annotations[v1alpha1.AnnotationRotateCA] = time.Now().UTC().Format(time.RFC3339)
			if err := api.Patch(cmd.Context(), secret, client.MergeFrom(before)); err != nil {
				return fmt.Errorf("requesting the rotation of the hub's CA: %w", err)
			}
			return c.printResult(cmd.OutOrStdout(), map[string]any{"secret": key.String(), "requested": true},
				"The rotation of the hub's CA is requested. Agents rotate their certificates, and then the old CA is removed.")
		},
	}
}
