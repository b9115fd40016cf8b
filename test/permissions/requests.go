package permissions

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// Request is a request of a user to an API server.
type Request struct {
	Group, Resource, Verb, Namespace, Name string
	// Denied means denied by the authorizer; what admission rejects was authorized.
	Denied bool
}

func (r Request) String() string {
	text := fmt.Sprintf("%s %s", r.Verb, r.Resource)
	if r.Group != "" {
		text += "." + r.Group
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	if r.Namespace == "" {
		return text + " in the whole cluster"
	}
	return text + " in namespace " + r.Namespace
}

// auditEvent has the fields of an audit.k8s.io/v1 Event that RequestsOf reads.
type auditEvent struct {
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	User       struct {
		Username string `json:"username"`
	} `json:"user"`
	// ImpersonatedUser is whom the user acted as, if anybody.
	ImpersonatedUser *struct {
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	} `json:"impersonatedUser"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		APIGroup    string `json:"apiGroup"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Annotations map[string]string `json:"annotations"`
}

// RequestsOf returns the distinct requests of a user in an audit log. It omits an incomplete
// last line and requests without a resource (discovery, which every user may use). One in the name
// of somebody else counts as what the user needs for that, by constrained impersonation. A watch
// with initial events counts as a list too, which it is for an API server that does not
// support such watches.
func RequestsOf(auditLog, user string) (map[Request]bool, error) {
	file, err := os.Open(auditLog)
	if err != nil {
		return nil, fmt.Errorf("reading audit log: %w", err)
	}
	defer file.Close()
	all := map[Request]bool{}
	reader := bufio.NewReaderSize(file, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading audit log: %w", err)
		}
		var event auditEvent
		if err := harness.DecodeAudit(line, &event); err != nil {
			return nil, fmt.Errorf("reading audit log: %.100q: %w", line, err)
		}
		if event.User.Username != user || event.ObjectRef == nil {
			continue
		}
		if event.ImpersonatedUser != nil {
			for _, r := range event.impersonation() {
				all[r] = true
			}
			continue
		}
		r := event.request()
		all[r] = true
		if r.Verb == "watch" && strings.Contains(event.RequestURI, "sendInitialEvents=true") {
			r.Verb = "list"
			all[r] = true
		}
	}
}

// impersonation returns what the API server has authorized the user to do before it authorized the user's
// request as that of somebody else (KEP-5284).
func (e *auditEvent) impersonation() []Request {
	const group, verb = "authentication.k8s.io", "impersonate:user-info"
	on := e.request()
	on.Verb, on.Denied = "impersonate-on:user-info:"+on.Verb, false
	all := []Request{on, {Group: group, Resource: "users", Verb: verb, Name: e.ImpersonatedUser.Username}}
	for _, name := range e.ImpersonatedUser.Groups {
		if name != "system:authenticated" { // the API server adds it
			all = append(all, Request{Group: group, Resource: "groups", Verb: verb, Name: name})
		}
	}
	return all
}

func (e *auditEvent) request() Request {
	ref := e.ObjectRef
	r := Request{
		Group: ref.APIGroup, Resource: ref.Resource, Verb: e.Verb, Namespace: ref.Namespace, Name: ref.Name,
		Denied: e.Annotations["authorization.k8s.io/decision"] == "forbid",
	}
	if ref.Subresource != "" {
		r.Resource += "/" + ref.Subresource
	}
	if r.Group == "" && r.Resource == "namespaces" {
		r.Namespace = "" // The log has the object's name there as well.
	}
	return r
}
