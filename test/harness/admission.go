package harness

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// What the admission policies are asked to do with a session that nobody will see.
const (
	userPolicy       = "vdi-session-user"
	sessionFinalizer = "vdi.kasm.io/session-cleanup"
	// stranger may create sessions in namespace default and is nobody else.
	stranger = "vdi-fleet-harness-stranger"
)

var (
	sessions = schema.GroupVersionResource{Group: "vdi.kasm.io", Version: "v1alpha1", Resource: "vdisessions"}
	roles    = schema.GroupVersionResource{Group: rbacGroup, Version: "v1", Resource: "roles"}
	bindings = schema.GroupVersionResource{Group: rbacGroup, Version: "v1", Resource: "rolebindings"}
)

// WaitAdmission waits until the admission policies are in force: the
// API server learns of one within about a second, and of the schema that a
// mutating one needs within five. It asks by dry-run, as a user who may create
// sessions of his own only, and takes that user's role away afterwards.
func (cp *ControlPlane) WaitAdmission(ctx context.Context) (err error) {
	role := object(rbacGroup+"/v1", "Role", metav1.NamespaceDefault, stranger, nil)
	role.Object["rules"] = []any{map[string]any{
		"apiGroups": []any{sessions.Group}, "resources": []any{sessions.Resource}, "verbs": []any{"create"},
	}}
	given := binding("Role", metav1.NamespaceDefault, stranger, stranger)
	if err := errors.Join(cp.ApplyObject(ctx, role), cp.ApplyObject(ctx, given)); err != nil {
		return fmt.Errorf("waiting for admission policies: %w", err)
	}
	defer func() {
		err = errors.Join(err,
			cp.Dynamic.Resource(bindings).Namespace(metav1.NamespaceDefault).Delete(ctx, given.GetName(), metav1.DeleteOptions{}),
			cp.Dynamic.Resource(roles).Namespace(metav1.NamespaceDefault).Delete(ctx, role.GetName(), metav1.DeleteOptions{}))
	}()
	config, err := cp.ConfigFor(stranger)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("waiting for admission policies: %w", err)
	}
	err = cp.APIServer.WaitUntil(ctx, func(ctx context.Context) error {
		return inForce(ctx, client.Resource(sessions).Namespace(metav1.NamespaceDefault))
	})
	if err != nil {
		return fmt.Errorf("waiting for admission policies: %w", err)
	}
	return nil
}

// inForce is nil once a session for somebody else is denied, and one of one's
// own gets the finalizer.
func inForce(ctx context.Context, client dynamic.ResourceInterface) error {
	try := func(user string) (*unstructured.Unstructured, error) {
		session := object("vdi.kasm.io/v1alpha1", "VDISession", metav1.NamespaceDefault, stranger, nil)
		session.Object["spec"] = map[string]any{"user": user, "template": "none"}
		return client.Create(ctx, session, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	if _, err := try("somebody-else"); err == nil {
		return errors.New("a session for somebody else is admitted")
	} else if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), userPolicy) {
		return fmt.Errorf("a session for somebody else is not denied by its policy: %w", err)
	}
	admitted, err := try(stranger)
	if err != nil {
		return fmt.Errorf("one's own session is denied: %w", err)
	}
	if !slices.Contains(admitted.GetFinalizers(), sessionFinalizer) {
		return errors.New("a session has no finalizer")
	}
	return nil
}
