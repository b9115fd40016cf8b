package impersonation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

const (
	// cachedFor is for how long an answer of the API server is used again.
	cachedFor = 10 * time.Second
	// maxCached is how many answers are remembered: some for each of a thousand users.
	maxCached = 8192
	// authenticated is the group of every user, which the API server adds to requests and not to reviews.
	authenticated = "system:authenticated"
)

// Authorizer determines what users may do, by the API server's authorization.
type Authorizer struct {
	client client.Client
	known  *cache.LRUExpireCache
}

// NewAuthorizer returns an authorizer. The client acts as the console itself.
func NewAuthorizer(c client.Client) *Authorizer {
	return &Authorizer{client: c, known: cache.NewLRUExpireCache(maxCached)}
}

// Request is what a user wants to do with objects of the API group vdi.kasm.io.
type Request struct {
	Verb, Resource, Subresource, Namespace, Name string
}

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// May reports whether a user may do what a request states. The answer is at most 10 s old.
func (a *Authorizer) May(ctx context.Context, user User, request Request) (bool, error) {
	type key struct {
		user, groups string
		Request
	}
	id := key{user.Name, strings.Join(user.Groups, "\x00"), request}
	if may, ok := a.known.Get(id); ok {
		return may.(bool), nil
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:   user.Name,
		Groups: append(slices.Clone(user.Groups), authenticated),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Group: v1alpha1.GroupVersion.Group, Verb: request.Verb, Resource: request.Resource, Subresource: request.Subresource,
			Namespace: request.Namespace, Name: request.Name,
		},
	}}
	if err := a.client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("reviewing whether %s may %s %s: %w", user.Name, request.Verb, request.Resource, err)
	}
	a.known.Add(id, review.Status.Allowed, cachedFor)
	return review.Status.Allowed, nil
}
