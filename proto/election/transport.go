package election

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// ErrNotLeading is what a write fails with when it is not certain that this
// replica leads.
var ErrNotLeading = errors.New("this replica may not lead any more, and writes nothing")

// Wrap lets clients of the configuration write only while this replica leads.
func (g *Guard) Wrap(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next: next, guard: g} })
}

type transport struct {
	next  http.RoundTripper
	guard *Guard
}

// RoundTrip refuses what would change something unless we lead.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if changes(request) && !t.guard.Leading() {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, ErrNotLeading)
	}
	return t.next.RoundTrip(request)
}

// WrappedRoundTripper is for those who look for the innermost.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// questions are posted, but change nothing.
var questions = []string{"/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/"}

func changes(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	for _, prefix := range questions {
		if strings.HasPrefix(request.URL.Path, prefix) {
			return false
		}
	}
	return true
}
