package impersonation

import (
	"context"
	"errors"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// apiServer is what an API server answers to the check.
type apiServer struct {
	// acts is the error of a request as another user; ignores makes such a request one of the console.
	acts    error
	ignores bool
	// everything lets the console act as anybody in every request.
	everything bool
	reviews    error
}

func (s apiServer) create(ctx context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
	switch review := o.(type) {
	case *authenticationv1.SelfSubjectReview:
		user, _ := From(ctx)
		review.Status.UserInfo.Username = user.Name
		if s.ignores {
			review.Status.UserInfo.Username = "vdi-console"
		}
		return s.acts
	case *authorizationv1.SelfSubjectAccessReview:
		a := review.Spec.ResourceAttributes
		review.Status.Allowed = s.everything && a.Verb == "impersonate" && a.Resource == "users"
		return s.reviews
	}
	return errors.New("an unexpected request")
}

func TestPermitted(t *testing.T) {
	for name, tc := range map[string]struct {
		server apiServer
		mode   Mode
		want   string
	}{
		"as it must be":                        {apiServer{}, Constrained, ""},
		"not permitted":                        {apiServer{acts: errors.New("forbidden")}, Constrained, "install the ClusterRole vdi-console"},
		"ignored":                              {apiServer{ignores: true}, Constrained, "ignores whom the console acts as"},
		"permitted everything":                 {apiServer{everything: true}, Constrained, "act as any user in every request"},
		"permitted everything, as it is meant": {apiServer{everything: true}, Legacy, ""},
		"not reviewed":                         {apiServer{reviews: errors.New("broken")}, Constrained, "broken"},
	} {
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: tc.server.create}).Build()
		err := Permitted(c, c, tc.mode)(t.Context())
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
