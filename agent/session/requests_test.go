package session_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
)

// requests are the agent's writes, events apart, as the API server gets them.
type requests struct {
	mu   sync.Mutex
	seen []request
}

type request struct {
	line string // such as "PATCH .../sessionassignments/x/status"
	body []byte
}

func (r *requests) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if req.Method != http.MethodGet && !strings.HasSuffix(req.URL.Path, "/events") {
			var body []byte
			if req.Body != nil {
				body, _ = io.ReadAll(req.Body)
				req.Body = io.NopCloser(bytes.NewReader(body))
			}
			r.mu.Lock()
			r.seen = append(r.seen, request{req.Method + " " + req.URL.Path, body})
			r.mu.Unlock()
		}
		return next.RoundTrip(req)
	})
}

// of are the writes that name an object.
func (r *requests) of(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	for _, s := range r.seen {
		if strings.Contains(s.line, name) || bytes.Contains(s.body, []byte(name)) {
			lines = append(lines, s.line)
		}
	}
	return lines
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
