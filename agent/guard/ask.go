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
	// attempts at one question: behind the address there may be replicas of the
	// agent of which one leads, and each attempt is a connection of its own.
	attempts = 4
	// mostAnswer bytes are read of an answer.
	mostAnswer = 4 << 10
)

// errDenied is an answer that asking another replica does not change.
var errDenied = errors.New("the agent says no")

// asker asks the agent on behalf of a guard or a gate.
type asker struct {
	url     string
	key     ed25519.PublicKey
	about   question
	timeout time.Duration
	client  *http.Client
	clock   func() time.Duration
}

func newAsker(o Asking, gate bool, clock func() time.Duration) (*asker, error) {
	key, err := parsePublic(o.Key)
	if err != nil {
		return nil, err
	}
	return &asker{
		url: o.LeaseURL, key: key, clock: clock,
		about:   question{gate: gate, namespace: o.Namespace, name: o.Name, uid: o.UID},
		timeout: max(o.scaled(askPatience), 100*time.Millisecond),
		client:  &http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: nil}},
	}, nil
}

// ask returns what is left of the lease, and when it was asked.
func (a *asker) ask(ctx context.Context) (asked, left time.Duration, err error) {
	for range attempts {
		asked = a.clock()
		left, err = a.once(ctx)
		if err == nil || errors.Is(err, errDenied) || ctx.Err() != nil {
			return asked, left, err
		}
	}
	return asked, left, err
}

func (a *asker) once(ctx context.Context) (time.Duration, error) {
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
		// The address has the nonce in it: with it no two errors would be alike.
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
