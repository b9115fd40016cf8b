package impersonation

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// User is whom a request acts as.
type User struct {
	Name   string
	Groups []string
	// RequestID is in the user agent of the request, so that the API server's audit log leads to that of the
	// console.
	RequestID string
}

type contextKey struct{}

// As returns a context whose requests act as a user.
func As(ctx context.Context, user User) context.Context {
	return context.WithValue(ctx, contextKey{}, user)
}

// From returns the user that the requests of a context act as.
func From(ctx context.Context) (User, bool) {
	user, ok := ctx.Value(contextKey{}).(User)
	return user, ok && user.Name != ""
}

// errNobody is the error of a request whose context names no user.
var errNobody = errors.New("the request names no user to act as")

// roundTripper sends requests as the user of their context.
type roundTripper struct {
	next  http.RoundTripper
	agent string
}

// RoundTrip sends a request (http.RoundTripper).
func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	user, ok := From(r.Context())
	if !ok {
		return nil, errNobody
	}
	if user.RequestID != "" {
		r = r.Clone(r.Context())
		r.Header.Set("User-Agent", t.agent+" request/"+user.RequestID)
	}
	return transport.NewImpersonatingRoundTripper(transport.ImpersonationConfig{UserName: user.Name, Groups: user.Groups}, t.next).RoundTrip(r)
}

// NewClient returns a client whose requests act as the user of their context (As). It reads from the API
// server, not from a cache.
func NewClient(cfg *rest.Config, scheme *runtime.Scheme, mapper meta.RESTMapper) (client.Client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return roundTripper{next, cfg.UserAgent} })
	c, err := client.New(cfg, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("preparing requests as users: %w", err)
	}
	return c, nil
}
