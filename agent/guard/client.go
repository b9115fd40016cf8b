package guard

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
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
	// attempts is how often a request is tried, each time on a new connection: the address
	// may lead to replicas of the agent that don't lead.
	attempts = 4
	// maxAnswer is the most bytes of an answer.
	maxAnswer = 4 << 10
)

// errDenied is a refusal that other replicas would repeat.
var errDenied = errors.New("denied by the agent")

// agentClient sends the requests of a guard or a gate to the agent.
type agentClient struct {
	url     string
	key     ed25519.PublicKey
	request permissionRequest
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
		request: permissionRequest{gate: gate, namespace: o.Namespace, name: o.Name, uid: o.UID},
		timeout: max(o.scaled(requestTimeout), 100*time.Millisecond),
		client:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: nil}},
	}, nil
}

// send returns what is left of the lease, and when the request was sent.
func (a *agentClient) send(ctx context.Context) (sent, left time.Duration, err error) {
	for range attempts {
		sent = a.clock()
		left, err = a.sendOnce(ctx)
		if err == nil || errors.Is(err, errDenied) || ctx.Err() != nil {
			break
		}
	}
	return sent, left, err
}

func (a *agentClient) sendOnce(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	q := a.request
	q.nonce = rand.Text()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(a.url, "/")+q.path()+"?"+q.query(), nil)
	if err != nil {
		return 0, fmt.Errorf("requesting from the agent: %w", err)
	}
	response, err := a.client.Do(request)
	if err != nil {
		// The URL contains the nonce, which would make every error different.
		if whole := (*url.Error)(nil); errors.As(err, &whole) {
			err = whole.Err
		}
		return 0, fmt.Errorf("requesting from the agent: %w", err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return 0, fmt.Errorf("reading the agent's answer: %w", err)
	}
	why := strings.TrimSpace(string(text))
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusForbidden, http.StatusNotFound, http.StatusTooManyRequests, http.StatusBadRequest:
		return 0, fmt.Errorf("%w: %s", errDenied, why)
	default:
		return 0, fmt.Errorf("requesting from the agent: %s: %s", response.Status, why)
	}
	var got answer
	if err := json.Unmarshal(text, &got); err != nil {
		return 0, fmt.Errorf("reading the agent's answer: %w", err)
	}
	return q.verify(a.key, got)
}
