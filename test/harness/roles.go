package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
)

// Hub and agents are the service accounts that they are where they are installed,
// with the roles and bindings of deploy/ and no others: so every test of a fleet
// fails where these do not suffice.
const (
	// HubUser and AgentUser are who they are in audit logs.
	HubUser   = "system:serviceaccount:" + SystemNamespace + ":vdi-hub"
	AgentUser = "system:serviceaccount:" + SystemNamespace + ":vdi-agent"

	hubSessions   = "vdi-hub-sessions"
	hubUserRoles  = "vdi-hub-user-roles"
	agentSessions = "vdi-agent-sessions"
)

// serviceAccountGroups are those of both.
var serviceAccountGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + SystemNamespace}

// authorizeHub gives the hub its roles. What lets it keep Secrets beside sessions, and
// let users read them, is bound in their namespaces only, as --session-namespaces has
// it.
func (f *Fleet) authorizeHub(ctx context.Context) error {
	cp := f.Hub.ControlPlane
	if err := cp.authorize(ctx, "rbac/hub.yaml", "hub.yaml"); err != nil {
		return err
	}
	if err := cp.authorizeScraper(ctx, "vdi-hub-metrics-reader"); err != nil {
		return err
	}
	for _, namespace := range f.options.sessionNamespaces() {
		for _, role := range []string{hubSessions, hubUserRoles} {
			bound := binding("ClusterRole", namespace, role, HubUser)
			bound.SetKind("RoleBinding")
			if err := cp.ApplyObject(ctx, bound); err != nil {
				return err
			}
		}
	}
	return nil
}

// AuthorizeAgent gives the agent of a member its roles, and what it may in the
// namespaces that are admitted. It returns how it connects.
func (cp *ControlPlane) AuthorizeAgent(ctx context.Context, admitted ...string) (*rest.Config, error) {
	if err := cp.authorize(ctx, "rbac/agent.yaml", "agent/agent.yaml"); err != nil {
		return nil, err
	}
	if err := cp.authorizeScraper(ctx, "vdi-agent-metrics-reader"); err != nil {
		return nil, err
	}
	for _, namespace := range admitted {
		if err := cp.AdmitSessions(ctx, namespace); err != nil {
			return nil, err
		}
	}
	return cp.ConfigFor(AgentUser, serviceAccountGroups...)
}

// AdmitSessions is the word of a member's administrator that sessions may live in a
// namespace, as deploy/samples/namespace.yaml has it.
func (cp *ControlPlane) AdmitSessions(ctx context.Context, namespace string) error {
	objects, err := deployed("samples/namespace.yaml")
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() == "Namespace" {
			object.SetName(namespace)
		} else {
			object.SetNamespace(namespace)
		}
		if err := cp.ApplyObject(ctx, object); err != nil {
			return fmt.Errorf("admitting sessions to namespace %s: %w", namespace, err)
		}
	}
	return nil
}

// authorize applies the roles, bindings and service accounts of files of deploy/.
func (cp *ControlPlane) authorize(ctx context.Context, files ...string) error {
	for _, file := range files {
		objects, err := deployed(file)
		if err != nil {
			return err
		}
		for _, object := range objects {
			kind := object.GetKind()
			if kind != "ServiceAccount" && !strings.Contains(kind, "Role") || strings.HasSuffix(kind, "Binding") && object.GetName() == hubSessions {
				continue
			}
			if err := cp.ApplyObject(ctx, object); err != nil {
				return fmt.Errorf("authorizing by deploy/%s: %w", file, err)
			}
		}
	}
	return nil
}

// deployed are the objects of a file of deploy/.
func deployed(file string) ([]*unstructured.Unstructured, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(root, "deploy", filepath.FromSlash(file)))
	if err != nil {
		return nil, fmt.Errorf("reading what is deployed: %w", err)
	}
	objects, err := decodeYAML(content)
	if err != nil {
		return nil, fmt.Errorf("reading deploy/%s: %w", file, err)
	}
	return objects, nil
}

// sessionNamespaces are those of the hub that may hold sessions.
func (o Options) sessionNamespaces() []string {
	return append(slices.Clone(o.Namespaces), o.HubNamespaces...)
}
