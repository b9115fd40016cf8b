package guard

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// attempts of one request: behind the address there may be replicas of the agent of
	// which one leads, and each attempt is a connection of its own.
	attempts = 4
	// mostAnswer is the most bytes of an answer.
	mostAnswer = 4 << 10
)

// errDenied is for an answer that another replica would give as well.
var errDenied = errors.New("the agent says no")

// agentClient sends the requests of a guard or a gate to the agent.
type agentClient struct {
	url     string
	key     ed25519.PublicKey
	about   question
	timeout time.Duration
	client  *http.Client
	clock   func() time.Duration
}

func newClient(o ClientOptions, gate bool, clock func() time.Duration) (*agentClient, error) {
	key, err := parsePublic(o.Key)
	if err != nil {
		return nil, err
	}
	return &agentClient{
		url: o.LeaseURL, key: key, clock: clock,
		about:   question{gate: gate, namespace: o.Namespace, name: o.Name, uid: o.UID},
		timeout: max(o.scaled(askTimeout), 100*time.Millisecond),
		client:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: nil}},
	}, nil
}

// ask returns what is left of the lease, and when the request was sent.
func (a *agentClient) ask(ctx context.Context) (asked, left time.Duration, err error) {
	for range attempts {
		asked = a.clock()
		left, err = a.once(ctx)
		if err == nil || errors.Is(err, errDenied) || ctx.Err() != nil {
			return asked, left, err
		}
	}
	return asked, left, err
}

func (a *agentClient) once(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	q := a.about
	q.nonce = newNonce()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(a.url, "/")+q.path()+"?"+q.query(), nil)
	if err != nil {
		return 0, fmt.Errorf("asking the agent: %w", err)
	}
	response, err := a.client.Do(request)
	if err != nil {
		// The URL contains the nonce: with it every error would be different.
		if whole := (*url.Error)(nil); errors.As(err, &whole) {
			err = whole.Err
		}
		return 0, fmt.Errorf("asking the agent: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return 0, fmt.Errorf("reading the agent's answer: %w", err)
	}
	why := strings.TrimSpace(string(text))
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests, http.StatusBadRequest:
		return 0, fmt.Errorf("%w: %s", errDenied, why)
	default:
		return 0, fmt.Errorf("asking the agent: %s: %s", response.Status, why)
	}
	var got answer
	if err := json.Unmarshal(text, &got); err != nil {
		return 0, fmt.Errorf("reading the agent's answer: %w", err)
	}
	return q.verify(a.key, got)
}
