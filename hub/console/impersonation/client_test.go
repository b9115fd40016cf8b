package impersonation

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

// sent returns the headers of a request with a context, and the error of sending it.
func sent(t *testing.T, ctx context.Context) (http.Header, error) {
	t.Helper()
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header }))
	defer server.Close()
	cfg := &rest.Config{Host: server.URL, BearerToken: "of-the-console"}
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return roundTripper{next, "vdi-console/1"} })
	c, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Do(r)
	if err == nil {
		_ = response.Body.Close()
	}
	return got, err
}

func TestRequestsActAsTheirUser(t *testing.T) {
	ctx := As(context.Background(), User{Name: "alice@example.com", Groups: []string{"staff", "dev"}, RequestID: "abc"})
	got, err := sent(t, ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"alice@example.com"}, got["Impersonate-User"]); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"staff", "dev"}, got["Impersonate-Group"]); diff != "" {
		t.Error(diff)
	}
	if agent := got.Get("User-Agent"); agent != "vdi-console/1 request/abc" {
		t.Errorf("the user agent is %q", agent)
	}
}

func TestARequestOfNobodyIsNotSent(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"no user":         context.Background(),
		"user of no name": As(context.Background(), User{Groups: []string{"staff"}}),
	} {
		if got, err := sent(t, ctx); !errors.Is(err, errNobody) || got != nil {
			t.Errorf("%s: sent with %v, %v", name, got, err)
		}
	}
}
