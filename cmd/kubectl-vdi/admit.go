package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// sessionsRole is the ClusterRole of an agent in the namespaces of sessions; the agent's
// chart creates it.
const sessionsRole = "vdi-agent-sessions"

func admitCommand(c *cluster) *cobra.Command {
	var agentIn string
	cmd := &cobra.Command{
		Use:   "admit NAMESPACE",
		Short: "Let sessions live in a namespace of a member",
		Long: "Let sessions live in a namespace of the cluster of the current context, a member: make it if it is not there,\n" +
			"label it, and bind the agent's role " + sessionsRole + " in it, without which the agent may read and write nothing\n" +
			"there. The agent can then read all Secrets of that namespace: keep nothing else in it. Pod Security is enforced at\n" +
			"level restricted, which desktops meet: other Pods there that don't can't be made any more.",
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
			return c.answer(cmd.OutOrStdout(), map[string]any{"namespace": args[0], "admitted": true},
				fmt.Sprintf("Sessions may live in namespace %s, and the agent of namespace %s may work there.", args[0], agentIn))
		},
	}
	cmd.Flags().StringVar(&agentIn, "agent-namespace", agentNamespace, "Namespace of the agent.")
	return cmd
}

// checkAdmissible refuses the namespaces in which the agent never runs sessions. A
// desktop beside the agent could take its identity.
func checkAdmissible(namespace, agentIn string) error {
	switch {
	case namespace == agentIn:
		return fmt.Errorf("namespace %s is the agent's own, where no session may live: name another one", namespace)
	case strings.HasPrefix(namespace, "kube-"):
		return fmt.Errorf("namespace %s is of Kubernetes itself, where no session may live: name another one", namespace)
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
		{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
			"metadata": map[string]any{"name": sessionsRole, "namespace": namespace},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": sessionsRole},
			"subjects": []any{map[string]any{"kind": "ServiceAccount", "name": "vdi-agent", "namespace": agentIn}},
		}},
	}
}
