package permissions

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Permission is one verb on one resource that a role allows.
type Permission struct {
	// Role is the kind and name of the role, as "ClusterRole vdi-agent".
	Role string
	// Resource includes the subresource, as "pods/status".
	Group, Resource, Verb string
	// Name is the name of the only object; empty for all.
	Name string
}

func (p Permission) String() string {
	text := fmt.Sprintf("%s: %s %s", p.Role, p.Verb, p.Resource)
	if p.Group != "" {
		text += "." + p.Group
	}
	if p.Name != "" {
		text += " " + p.Name
	}
	return text
}

// Reach is where a role is bound.
type Reach int

// The reaches of roles, the narrowest first: a request counts for the narrowest role that
// allows it.
const (
	// OwnNamespace is the namespace of hub or agent, or another one that the Role names.
	OwnNamespace Reach = iota
	// SessionNamespaces are the namespaces that may hold sessions.
	SessionNamespaces
	// WholeCluster is every namespace, and resources without one.
	WholeCluster
)

// Grant is a permission and where it is bound.
type Grant struct {
	Permission
	Reach Reach
	// Namespace of a Role.
	Namespace string
}

// Granted reads the roles of a chart's files/rbac.yaml. The ClusterRoles named
// inSessions are bound in the namespaces of sessions, all others in the whole
// cluster.
func Granted(file string, inSessions ...string) ([]Grant, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading roles: %w", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var all []Grant
	for {
		role := rbacv1.ClusterRole{} // A Role has the same fields.
		if err := decoder.Decode(&role); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading roles of %s: %w", file, err)
		}
		reach := WholeCluster
		switch {
		case role.Kind == "Role":
			reach = OwnNamespace
		case slices.Contains(inSessions, role.Name):
			reach = SessionNamespaces
		}
		for _, rule := range role.Rules {
			permissions, err := permissionsOf(role.Kind+" "+role.Name, rule)
			if err != nil {
				return nil, fmt.Errorf("reading roles of %s: %w", file, err)
			}
			for _, permission := range permissions {
				all = append(all, Grant{permission, reach, role.Namespace})
			}
		}
	}
}

func permissionsOf(role string, rule rbacv1.PolicyRule) ([]Permission, error) {
	for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs} {
		if slices.Contains(list, "*") {
			return nil, fmt.Errorf("%s allows everything of a kind: %v", role, rule)
		}
	}
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []Permission
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					all = append(all, Permission{Role: role, Group: group, Resource: resource, Verb: verb, Name: name})
				}
			}
		}
	}
	return all, nil
}
