package harness

import (
	"context"
	"fmt"
)

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
	{Context: "alice", Name: "alice@example.com"},
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
