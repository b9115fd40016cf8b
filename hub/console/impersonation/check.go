package impersonation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Mode is how the API server permits the console to act as users.
type Mode string

// The modes.
const (
	// Constrained: for some verbs on some resources only. It needs Kubernetes 1.36.
	Constrained Mode = "constrained"
	// Legacy: for every request, as kubectl --as does.
	Legacy Mode = "legacy"
)

// +kubebuilder:rbac:groups=authentication.k8s.io,resources=users;groups,verbs="impersonate:user-info"
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=selfsubjectreviews,verbs="impersonate-on:user-info:create"

// Permitted returns a check that the API server permits the console to act as a user who does not exist, and, in
// mode Constrained, not in every request. self acts as the console itself, users as the users of contexts.
func Permitted(self, users client.Client, mode Mode) func(context.Context) error {
	return func(ctx context.Context) error {
		name := "vdi-console-check-" + rand.Text()
		review := &authenticationv1.SelfSubjectReview{}
		if err := users.Create(As(ctx, User{Name: name}), review); err != nil {
			return fmt.Errorf("the console may not act as users: install the ClusterRole vdi-console and its binding; with an API server before 1.36 set console.impersonation to legacy: %w", err)
		}
		if got := review.Status.UserInfo.Username; got != name {
			return fmt.Errorf("the API server ignores whom the console acts as: a request as %s was one of %s", name, got)
		}
		if mode == Legacy {
			return nil
		}
		return constrained(ctx, self, name)
	}
}

// constrained returns an error if the console may act as a user in every request.
func constrained(ctx context.Context, self client.Client, name string) error {
	access := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users", Name: name},
	}}
	if err := self.Create(ctx, access); err != nil {
		return fmt.Errorf("reviewing the rights of the console: %w", err)
	}
	if access.Status.Allowed {
		return errors.New("the console may act as any user in every request: remove the role with verb impersonate on users from its service account, or set console.impersonation to legacy")
	}
	return nil
}
