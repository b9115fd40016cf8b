package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/rest"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/deploy"
	"github.com/vdi-fleet/vdi-fleet/test/harness/apply"
)

// Hub and agents have the service accounts of an installation, with only the roles and
// bindings of their charts: a test of a fleet fails if these do not suffice.
const (
	// HubUser, AgentUser and DoorUser are the users of hub, agents and doors in audit logs.
	HubUser   = "system:serviceaccount:" + SystemNamespace + ":vdi-hub"
	AgentUser = "system:serviceaccount:" + SystemNamespace + ":vdi-agent"
	DoorUser  = "system:serviceaccount:" + SystemNamespace + ":vdi-door"
)

// serviceAccountGroups are the groups of both users.
var serviceAccountGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + SystemNamespace}

// authorizeHub grants the hub its roles, and creates the default policy. The roles for the Secrets of
// sessions are bound only in the namespaces of --session-namespaces.
func authorizeHub(ctx context.Context, cp *ControlPlane, options Options) error {
	chart, err := options.hubChart()
	if err != nil {
		return err
	}
	if err := authorize(ctx, cp.Applier, chart); err != nil {
		return err
	}
	return cp.scraper.Authorize(ctx, "vdi-hub-metrics-reader")
}

// hubChart returns the objects of the hub's chart, with the fleet's namespaces, for an API server that
// has its CRDs.
func (o Options) hubChart() ([]*unstructured.Unstructured, error) {
	return deploy.Render(deploy.HubChart, SystemNamespace, map[string]any{
		"console": o.Console.chart(), "sessionNamespaces": o.sessionNamespaces(), "userRoles": true,
		"priorityClass": map[string]any{"create": false, "name": ""},
	}, v1alpha1.GroupVersion.String()+"/PlacementPolicy")
}

// AuthorizeAgent grants the agent of a member its roles, also in the namespaces that are
// admitted, and those for node groups and buffers, with the PriorityClass of the latter, in a member with an
// autoscaler. It returns the configuration of the agent's client.
func (cp *ControlPlane) AuthorizeAgent(ctx context.Context, admitted ...string) (*rest.Config, error) {
	grows := map[string]any{"enabled": cp.Karpenter != nil || cp.ClusterAutoscaler != nil}
	chart, err := deploy.Render(deploy.AgentChart, SystemNamespace, map[string]any{
		"nodeGroups": grows, "buffers": grows, "door": map[string]any{"enabled": cp.options.Door}, "priorityClass": map[string]any{"create": false, "name": ""},
	})
	if err != nil {
		return nil, err
	}
	if err := authorize(ctx, cp.Applier, chart); err != nil {
		return nil, err
	}
	if err := cp.scraper.Authorize(ctx, "vdi-agent-metrics-reader"); err != nil {
		return nil, err
	}
	for _, namespace := range admitted {
		if err := cp.AdmitSessions(ctx, namespace); err != nil {
			return nil, err
		}
	}
	return cp.ConfigFor(AgentUser, serviceAccountGroups...)
}

// AdmitSessions admits sessions to a namespace of a member, as its administrator does by
// deploy/samples/namespace.yaml.
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

// authorize applies the roles, bindings, service accounts, priority classes, policies and ConfigMaps of a chart, and
// the door's Service, which owns what the agent creates for it.
func authorize(ctx context.Context, admin *apply.Applier, chart []*unstructured.Unstructured) error {
	kinds := sets.New("ServiceAccount", "PriorityClass", "PlacementPolicy", "ConfigMap")
	for _, object := range chart {
		kind := object.GetKind()
		if door := kind == "Service" && object.GetName() == doorService; !door && !kinds.Has(kind) && !strings.Contains(kind, "Role") {
			continue
		}
		if err := admin.ApplyObject(ctx, object); err != nil {
			return fmt.Errorf("authorizing: %w", err)
		}
	}
	return nil
}

// deployed returns the objects of a file of deploy/.
func deployed(file string) ([]*unstructured.Unstructured, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(filepath.Join(root, "deploy", filepath.FromSlash(file)))
	if err != nil {
		return nil, fmt.Errorf("reading manifest: %w", err)
	}
	objects, err := apply.Decode(content)
	if err != nil {
		return nil, fmt.Errorf("reading deploy/%s: %w", file, err)
	}
	return objects, nil
}

// User is a person of deploy/samples/users.yaml, with a client certificate of the
// hub's API server and the roles of its chart.
type User struct {
	// Context is the user's context in the fleet's kubeconfig; its cluster is the hub.
	Context string
	// Name and Groups are those of the client certificate.
	Name   string
	Groups []string
}

// Users are the users of every fleet: two users of sessions, and an operator.
var Users = []User{
	{Context: "alice", Name: "alice@example.com", Groups: []string{"staff"}},
	{Context: "bob", Name: "bob@example.com"},
	{Context: "operator", Name: "oscar@example.com", Groups: []string{"operators"}},
}

// authorizeUsers grants Users their roles, those of a namespace in each session namespace.
func authorizeUsers(ctx context.Context, cp *ControlPlane, sessionNamespaces []string) error {
	for _, file := range []string{"charts/vdi-hub/files/users.yaml", "samples/users.yaml"} {
		objects, err := deployed(file)
		if err != nil {
			return err
		}
		for _, object := range objects {
			namespaces := []string{""}
			if object.GetNamespace() != "" {
				namespaces = sessionNamespaces
			}
			for _, namespace := range namespaces {
				object.SetNamespace(namespace)
				if err := cp.ApplyObject(ctx, object); err != nil {
					return fmt.Errorf("authorizing users by deploy/%s: %w", file, err)
				}
			}
		}
	}
	return nil
}
