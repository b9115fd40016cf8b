package permissions_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vdi-fleet/vdi-fleet/test/permissions"
)

const roles = `
kind: ClusterRole
metadata: {name: worker}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [list]}
- {apiGroups: [""], resources: [pods], verbs: [get]}
---
kind: ClusterRole
metadata: {name: worker-sessions}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get]}
- {apiGroups: [""], resources: [pods/status], verbs: [patch]}
---
kind: Role
metadata: {name: worker, namespace: own}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [lock], verbs: [get]}
---
kind: Role
metadata: {name: worker-extra, namespace: other}
rules:
- {apiGroups: [""], resources: [configmaps], resourceNames: [state], verbs: [watch]}
`

// everything uses all that the roles allow.
var everything = []permissions.Request{
	{Resource: "nodes", Verb: "list"},
	{Resource: "pods", Verb: "get", Namespace: "elsewhere", Name: "a"},
	{Resource: "pods", Verb: "get", Namespace: "desks", Name: "b"},
	{Resource: "pods/status", Verb: "patch", Namespace: "desks", Name: "b"},
	{Group: "coordination.k8s.io", Resource: "leases", Verb: "get", Namespace: "own", Name: "lock"},
	{Resource: "configmaps", Verb: "watch", Namespace: "other", Name: "state"},
}

func caseOf(t *testing.T, requests ...permissions.Request) *permissions.Case {
	t.Helper()
	file := filepath.Join(t.TempDir(), "roles.yaml")
	if err := os.WriteFile(file, []byte(roles), 0o600); err != nil {
		t.Fatal(err)
	}
	grants, err := permissions.Granted(file, "worker-sessions")
	if err != nil {
		t.Fatal(err)
	}
	c := &permissions.Case{Grants: grants, Own: "own", Sessions: []string{"desks"}, Requests: map[permissions.Request]bool{}}
	for _, r := range requests {
		c.Requests[r] = true
	}
	return c
}

func without(i int) []permissions.Request {
	return append(append([]permissions.Request{}, everything[:i]...), everything[i+1:]...)
}

func TestUnusedPermissionsAreReported(t *testing.T) {
	const where = "allowed, and not needed outside of the namespaces of sessions: ClusterRole worker: "
	for name, c := range map[string]struct {
		requests []permissions.Request
		want     []string
	}{
		"all of it is used":            {everything, nil},
		"a verb":                       {without(0), []string{where + "list nodes"}},
		"a subresource":                {without(3), []string{"allowed, and not needed: ClusterRole worker-sessions: patch pods/status"}},
		"the whole cluster":            {without(1), []string{where + "get pods"}},
		"the narrower of two":          {without(2), []string{"allowed, and not needed: ClusterRole worker-sessions: get pods"}},
		"a name":                       {without(4), []string{"allowed, and not needed: Role worker: get leases.coordination.k8s.io lock"}},
		"another name than was needed": {append(without(4), permissions.Request{Group: "coordination.k8s.io", Resource: "leases", Verb: "get", Namespace: "own", Name: "other"}), []string{"allowed, and not needed: Role worker: get leases.coordination.k8s.io lock"}},
		"a Role outside of the namespace of its holder": {append(without(5), permissions.Request{Resource: "configmaps", Verb: "watch", Namespace: "own", Name: "state"}), []string{"allowed, and not needed: Role worker-extra: watch configmaps state"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, caseOf(t, c.requests...).Unused(t.TempDir())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhereverItWorks(t *testing.T) {
	c := caseOf(t, without(1)...)
	c.Everywhere = true
	c.Sessions = nil // Without them narrower roles do not apply either.
	if got := c.Unused(t.TempDir()); len(got) != 2 {
		t.Errorf("a request in a namespace of sessions shows nothing of a role of the whole cluster: %v", got)
	}
}

func TestExceptions(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "some_test.go"), []byte("func TestNodes"), 0o600); err != nil {
		t.Fatal(err)
	}
	exception := permissions.Exception{
		Role: "ClusterRole worker", Resource: "nodes", Verbs: []string{"list"}, Because: "it counts them", Test: "some_test.go", Contains: "func TestNodes",
	}
	for name, c := range map[string]struct {
		requests []permissions.Request
		change   func(*permissions.Exception)
		want     []string
	}{
		"one that is needed":  {without(0), func(*permissions.Exception) {}, nil},
		"one that was used":   {everything, func(*permissions.Exception) {}, []string{"is no exception, it was used: ClusterRole worker: list nodes"}},
		"one by chance, used": {everything, func(e *permissions.Exception) { e.Chance = true }, nil},
		"one by chance, not":  {without(0), func(e *permissions.Exception) { e.Chance = true }, nil},
		"one of nothing": {everything, func(e *permissions.Exception) { e.Verbs = []string{"delete"} },
			[]string{"no role allows what is an exception: ClusterRole worker: delete nodes"}},
		"one whose test is gone": {without(0), func(e *permissions.Exception) { e.Contains = "func TestPods" },
			[]string{`the test of an exception is not there (some_test.go, "func TestPods"): ClusterRole worker [list] nodes`}},
		"one without a reason": {without(0), func(e *permissions.Exception) { e.Because = "" },
			[]string{"an exception without a reason: ClusterRole worker [list] nodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			checked, e := caseOf(t, c.requests...), exception
			c.change(&e)
			checked.Exceptions = []permissions.Exception{e}
			if diff := cmp.Diff(c.want, checked.Unused(root)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

const auditLog = `{"verb":"get","user":{"username":"worker"},"objectRef":{"resource":"namespaces","namespace":"a","name":"a"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"get","user":{"username":"other"},"objectRef":{"resource":"pods"}}
{"verb":"get","user":{"username":"worker"},"requestURI":"/api"}
{"verb":"watch","requestURI":"/api/v1/nodes?sendInitialEvents=true&watch=true","user":{"username":"worker"},"objectRef":{"resource":"nodes"},"annotations":{"authorization.k8s.io/decision":"allow"}}
{"verb":"get","user":{"username":"worker"},"objectRef":{"resource":"pods","subresource":"log","namespace":"desks","name":"b"},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"verb":"get","user":{"username":"worker"},"objectRef":{"resource":"pods","namespace":"desks","name":"b"},"annotations":{"authorization.k8s.io/decision":"forbid"}}
{"verb":"del`

func TestDeniedRequestsAreReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(file, []byte(auditLog), 0o600); err != nil {
		t.Fatal(err)
	}
	requests, err := permissions.RequestsOf(file, "worker")
	if err != nil {
		t.Fatal(err)
	}
	want := map[permissions.Request]bool{
		{Resource: "namespaces", Verb: "get", Name: "a"}:                                 true,
		{Resource: "nodes", Verb: "watch"}:                                               true,
		{Resource: "nodes", Verb: "list"}:                                                true,
		{Resource: "pods/log", Verb: "get", Namespace: "desks", Name: "b", Denied: true}: true,
		{Resource: "pods", Verb: "get", Namespace: "desks", Name: "b", Denied: true}:     true,
	}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Fatal(diff)
	}
	c := caseOf(t)
	maps.Copy(c.Requests, requests)
	// A request that a role allows was denied while the API server started.
	if diff := cmp.Diff([]string{"get pods/log b in namespace desks"}, c.Denied()); diff != "" {
		t.Error(diff)
	}
}
