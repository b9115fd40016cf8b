package assignment

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/template"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// Orders renders assignments.
type Orders struct {
	// State returns the state of a member.
	State     func(member types.UID) member.State
	Revisions *template.Revisions
	Secrets   *secret.Manager
	Proofs    *Proofs
	// Namespaces are those whose sessions are assigned. Empty means all.
	Namespaces []string
	// Trace of sessions' lifecycles, or nil.
	Trace *tracing.Tracer
}

// Order is the desired state of a session in a member.
type Order struct {
	// Assignment without the content of Secrets, and its hash.
	Assignment *v1alpha1.SessionAssignment
	Hash       string
	// URL of the desktop.
	URL string
	// Spec of the template revision, and the Secrets that are sent along.
	Spec    *v1alpha1.TemplateSpec
	secrets secret.Set
}

// Check returns a NotAssignableError if the hub serves no sessions of the namespace.
func (o *Orders) Check(s *v1alpha1.VDISession) error {
	if message := o.NotServed(s.Namespace); message != "" {
		return &secret.NotAssignableError{Reason: v1alpha1.ReasonNamespaceNotAllowed, Message: message}
	}
	return nil
}

// For returns the order for a session that is placed in a member.
func (o *Orders) For(ctx context.Context, s *v1alpha1.VDISession, member v1alpha1.ClusterRef) (*Order, error) {
	spec, err := o.Revisions.Spec(ctx, s.Spec.Template, s.Status.TemplateRevision)
	if err != nil {
		return nil, fmt.Errorf("reading template revision: %w", err)
	}
	there := o.State(member.UID)
	if !there.Known {
		return nil, multicluster.ErrClusterNotFound
	}
	if err := o.Check(s); err != nil {
		return nil, err
	}
	secrets, err := o.Secrets.For(ctx, s, spec)
	if err != nil {
		return nil, err
	}
	a := Render(s, spec, there.Spec.IngressDomain, secrets)
	a.Spec.Proof = o.Proofs.of(member.UID, s.UID, a.Spec.Epoch)
	// The run distinguishes assignments with the same content, and so their reports.
	hash := fmt.Sprintf("%s-%d", convert.SpecHash(&a.Spec), s.Status.Placement.Run)
	a.Annotations = map[string]string{v1alpha1.AnnotationSpecHash: hash}
	if root := LifecycleTrace(o.Trace, s); root.Traced() {
		a.Annotations[v1alpha1.AnnotationTraceparent] = root.String()
	}
	return &Order{Assignment: a, Hash: hash, URL: there.Spec.IngressOrigin(a.Name) + spec.Path, Spec: spec, secrets: secrets}, nil
}

// NotServed returns why the hub does not accept the sessions of a namespace, or "".
func (o *Orders) NotServed(namespace string) string {
	if len(o.Namespaces) == 0 || slices.Contains(o.Namespaces, namespace) {
		return ""
	}
	return fmt.Sprintf("the hub serves no sessions of namespace %q, only those of %s: delete the session and create it there, or add the namespace to the hub's --session-namespaces (sessionNamespaces of its chart)",
		namespace, strings.Join(o.Namespaces, ", "))
}

// LifecycleTrace returns the root of the trace of a session's current run, or the zero Point
// if it is not placed or not traced.
func LifecycleTrace(t *tracing.Tracer, s *v1alpha1.VDISession) tracing.Point {
	p := s.Status.Placement
	if !t.On() || p == nil {
		return tracing.Point{}
	}
	return t.Lifecycle(string(s.UID), p.Epoch, max(1, p.Run))
}
