package reconnect

import (
	"context"
	"errors"
	"net/http"
	"syscall"
	"testing"
	"time"
)

type answers func(n int) (*http.Response, error)

// counted is a server that counts requests, with an answer for each.
type counted struct {
	answers answers
	n       int
}

func (c *counted) RoundTrip(*http.Request) (*http.Response, error) {
	c.n++
	return c.answers(c.n)
}

func TestReadsWithoutAnAnswerAreRetried(t *testing.T) {
	ok := &http.Response{StatusCode: http.StatusOK}
	strange := errors.New("x509: certificate signed by unknown authority")
	silentTwice := func(n int) (*http.Response, error) {
		if n <= 2 {
			return nil, syscall.ECONNREFUSED
		}
		return ok, nil
	}
	for name, test := range map[string]struct {
		method   string
		answers  answers
		requests int
		err      error
	}{
		"a read":                          {http.MethodGet, silentTwice, 3, nil},
		"a write, which may be done":      {http.MethodPost, silentTwice, 1, syscall.ECONNREFUSED},
		"an error that waiting can't end": {http.MethodGet, func(int) (*http.Response, error) { return nil, strange }, 1, strange},
		"an answer":                       {http.MethodGet, func(int) (*http.Response, error) { return ok, nil }, 1, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := &counted{answers: test.answers}
			request, err := http.NewRequestWithContext(t.Context(), test.method, "https://member/api", nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := (&transport{next: server, retry: time.Microsecond}).RoundTrip(request)
			if !errors.Is(err, test.err) || (err == nil) != (got == ok) || server.n != test.requests {
				t.Errorf("%d requests: %v, %v", server.n, got, err)
			}
		})
	}
}

func TestAReadEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := &counted{answers: func(n int) (*http.Response, error) {
		if n == 3 {
			cancel()
		}
		return nil, syscall.ECONNRESET
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://member/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &transport{next: server, retry: time.Microsecond}
	if _, err := s.RoundTrip(request); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("it ends with %v", err)
	}
}
