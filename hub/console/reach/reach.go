package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/vdi-fleet/vdi-fleet/hub/console/messages"
	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

const (
	// timeout is how long a door has to answer.
	timeout = 4 * time.Second
	// again is how often a host is tried: every page of it gets the same finding meanwhile.
	again = 10 * time.Second
	// maxHosts is how many findings are remembered.
	maxHosts = 4096
)

// Prober tries to reach doors.
type Prober struct {
	client *http.Client
	found  *cache.LRUExpireCache
}

// NewProber returns a Prober.
func NewProber() *Prober {
	dialer := &net.Dialer{Timeout: timeout}
	return &Prober{
		client: &http.Client{
			Timeout: timeout,
			Transport: &http.Transport{
				DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
					return dialer.DialContext(ctx, network, loopback(address))
				},
				DisableKeepAlives: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		found: cache.NewLRUExpireCache(maxHosts),
	}
}

// loopback returns the address of this machine for hosts below localhost, which browsers never look up (RFC 6761).
func loopback(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err == nil && strings.HasSuffix(host, ".localhost") {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return address
}

// Find tries to reach the door of an origin, which must be one that the hub has generated. What it finds is at most 10 s
// old.
func (p *Prober) Find(ctx context.Context, origin string) messages.Finding {
	if found, ok := p.found.Get(origin); ok {
		return found.(messages.Finding)
	}
	found := p.try(ctx, origin)
	p.found.Add(origin, found, again)
	return found
}

func (p *Prober) try(ctx context.Context, origin string) messages.Finding {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, origin+visit.HelloPath, http.NoBody)
	if err != nil {
		return messages.Finding{Kind: messages.HostNoName, Detail: err.Error()}
	}
	response, err := p.client.Do(request)
	if err != nil {
		return failed(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return messages.Finding{Kind: messages.HostNoDoor, Detail: response.Status}
	}
	return messages.Finding{Kind: messages.HostAnswers}
}

// failed returns the finding of a request that failed.
func failed(err error) messages.Finding {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &name):
		return messages.Finding{Kind: messages.HostNoName}
	case errors.As(err, &certificate):
		detail := certificate.Err.Error()
		if leaf := certificate.UnverifiedCertificates; len(leaf) > 0 && len(leaf[0].DNSNames) > 0 {
			detail = fmt.Sprintf("it is for %s: %s", strings.Join(leaf[0].DNSNames[:min(3, len(leaf[0].DNSNames))], ", "), detail)
		}
		return messages.Finding{Kind: messages.HostCertificate, Detail: detail}
	}
	return messages.Finding{Kind: messages.HostNoAnswer}
}
