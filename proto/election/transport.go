package election

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// ErrNotLeading is the error of a write when it is not certain that this replica leads.
var ErrNotLeading = errors.New("this replica is not certain to lead, and writes nothing")

// Wrap allows clients of the configuration to write only while this replica leads.
func (l *Leadership) Wrap(cfg *rest.Config) {
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return &transport{next: next, leadership: l} })
}

type transport struct {
	next       http.RoundTripper
	leadership *Leadership
}

// RoundTrip refuses a write unless this replica leads.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if changes(request) && !t.leadership.Leading() {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL.Path, ErrNotLeading)
	}
	return t.next.RoundTrip(request)
}

// WrappedRoundTripper returns the wrapped RoundTripper.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// reviewPaths are the paths of requests that are posted, but change nothing.
var reviewPaths = []string{"/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/"}

func changes(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	for _, prefix := range reviewPaths {
		if strings.HasPrefix(request.URL.Path, prefix) {
			return false
		}
	}
	return true
}
