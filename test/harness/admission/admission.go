package admission

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

	"github.com/vdi-fleet/vdi-fleet/test/harness/apply"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kubeconfig"
)

const (
	userPolicy       = "vdi-session-user"
	sessionFinalizer = "vdi.kasm.io/session-cleanup"
	// user may create sessions in namespace default, and nothing else.
	user = "vdi-fleet-harness-user"
)

var (
	sessions = schema.GroupVersionResource{Group: "vdi.kasm.io", Version: "v1alpha1", Resource: "vdisessions"}
	roles    = schema.GroupVersionResource{Group: apply.RBACGroup, Version: "v1", Resource: "roles"}
	bindings = schema.GroupVersionResource{Group: apply.RBACGroup, Version: "v1", Resource: "rolebindings"}
)

// Wait waits until the admission policies of sessions are in force: the API server loads
// one within about a second, and the schema that a mutating one needs within five. It
// checks by dry-run, as a user who may only create sessions, and deletes the role of that
// user afterwards.
func Wait(ctx context.Context, admin *apply.Applier, issuer *kubeconfig.Issuer) (err error) {
	role := apply.Object(apply.RBACGroup+"/v1", "Role", metav1.NamespaceDefault, user, nil)
	role.Object["rules"] = []any{map[string]any{
		"apiGroups": []any{sessions.Group}, "resources": []any{sessions.Resource}, "verbs": []any{"create"},
	}}
	granted := apply.Binding("Role", metav1.NamespaceDefault, user, user)
	if err := errors.Join(admin.ApplyObject(ctx, role), admin.ApplyObject(ctx, granted)); err != nil {
		return fmt.Errorf("waiting for admission policies: %w", err)
	}
	defer func() {
		err = errors.Join(err,
			admin.Dynamic.Resource(bindings).Namespace(metav1.NamespaceDefault).Delete(ctx, granted.GetName(), metav1.DeleteOptions{}),
			admin.Dynamic.Resource(roles).Namespace(metav1.NamespaceDefault).Delete(ctx, role.GetName(), metav1.DeleteOptions{}))
	}()
	config, err := issuer.ConfigFor(user)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("waiting for admission policies: %w", err)
	}
	err = admin.WaitUntil(ctx, func(ctx context.Context) error {
		return inForce(ctx, client.Resource(sessions).Namespace(metav1.NamespaceDefault))
	})
	if err != nil {
		return fmt.Errorf("waiting for admission policies: %w", err)
	}
	return nil
}

// inForce checks that a session for another user is denied, and that a session of the
// user gets the finalizer.
func inForce(ctx context.Context, client dynamic.ResourceInterface) error {
	try := func(owner string) (*unstructured.Unstructured, error) {
		session := apply.Object("vdi.kasm.io/v1alpha1", "VDISession", metav1.NamespaceDefault, user, nil)
		session.Object["spec"] = map[string]any{"user": owner, "template": "none"}
		return client.Create(ctx, session, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	if _, err := try("another-user"); err == nil {
		return errors.New("a session for another user is admitted")
	} else if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), userPolicy) {
		return fmt.Errorf("a session for another user is not denied by its policy: %w", err)
	}
	admitted, err := try(user)
	if err != nil {
		return fmt.Errorf("the session of the user is denied: %w", err)
	}
	if !slices.Contains(admitted.GetFinalizers(), sessionFinalizer) {
		return errors.New("a session has no finalizer")
	}
	return nil
}
