package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// accessCommand is revoke or allow.
func accessCommand(c *cluster, verb string, access v1alpha1.MemberAccess) *cobra.Command {
	short, after := "End a member's connection and make its certificates invalid for good",
		"Member %s is revoked: its connection ends, its certificates are invalid, its sessions follow their modes."
	if access == v1alpha1.AccessAllowed {
		short = "Let a revoked member join again"
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
