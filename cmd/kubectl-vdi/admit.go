package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// The ClusterRoles of agent and door in the namespaces of sessions; the agent's chart creates
// them.
const (
	sessionsRole = "vdi-agent-sessions"
	doorRole     = "vdi-door-sessions"
)

func admitCommand(c *cluster) *cobra.Command {
	var agentIn string
	cmd := &cobra.Command{
		Use:   "admit NAMESPACE",
		Short: "Admit sessions to a namespace of a member",
		Long: "Admit sessions to a namespace of the current context's cluster, a member. It creates the namespace if it does\n" +
			"not exist, labels it, and binds the agent's role " + sessionsRole + " in it, and the door's, " + doorRole + ".\n" +
			"Both can then read all Secrets of that namespace: use it only for sessions. Pod Security is enforced at level\n" +
			"restricted, so that Pods that don't meet it can't be created there any more.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkAdmissible(args[0], agentIn); err != nil {
				return err
			}
			api, err := c.connect()
			if err != nil {
				return err
			}
			for _, object := range admission(args[0], agentIn) {
				if err := apply(cmd.Context(), api, object); err != nil {
					return fmt.Errorf("applying %s %s: %w", object.GetKind(), object.GetName(), err)
				}
			}
			return c.printResult(cmd.OutOrStdout(), map[string]any{"namespace": args[0], "admitted": true},
				fmt.Sprintf("Namespace %s admits sessions of the agent in namespace %s.", args[0], agentIn))
		},
	}
	cmd.Flags().StringVar(&agentIn, "agent-namespace", agentNamespace, "Namespace of the agent.")
	return cmd
}

// checkAdmissible returns an error for a namespace that can't be admitted: a desktop in the
// agent's namespace could use the agent's identity.
func checkAdmissible(namespace, agentIn string) error {
	switch {
	case namespace == agentIn:
		return fmt.Errorf("namespace %s is the agent's and can't admit sessions: use another one", namespace)
	case strings.HasPrefix(namespace, "kube-"):
		return fmt.Errorf("namespace %s is reserved for Kubernetes and can't admit sessions: use another one", namespace)
	}
	return nil
}

// admission returns the objects that admit sessions to a namespace, as in
// deploy/samples/namespace.yaml.
func admission(namespace, agentIn string) []*unstructured.Unstructured {
	return []*unstructured.Unstructured{
		{Object: map[string]any{
			"apiVersion": "v1", "kind": "Namespace",
			"metadata": map[string]any{"name": namespace, "labels": map[string]any{
				v1alpha1.LabelAdmitSessions: "true", v1alpha1.LabelPodSecurity: v1alpha1.PodSecurityRestricted,
			}},
		}},
		binding(namespace, sessionsRole, "vdi-agent", agentIn),
		binding(namespace, doorRole, "vdi-door", agentIn),
	}
}

// binding binds a ClusterRole to a service account of the agent's namespace.
func binding(namespace, role, account, agentIn string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
		"metadata": map[string]any{"name": role, "namespace": namespace},
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
		"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": account, "namespace": agentIn}},
	}}
}
