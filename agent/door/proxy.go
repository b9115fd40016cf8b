package door

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

const (
	// bufferSize is the size of the buffers that bodies are copied with.
	bufferSize = 32 << 10
	// dialTimeout is how long a Pod may take to accept a connection.
	dialTimeout = 5 * time.Second
	// idleTimeout is how long a connection to a Pod is kept without a request.
	idleTimeout = 90 * time.Second
)

// newProxy returns the handler that forwards admitted requests to their desktops.
func newProxy() http.Handler {
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			begin := time.Now()
			conn, err := dialer.DialContext(ctx, network, address)
			dials.WithLabelValues(strconv.FormatBool(err == nil)).Observe(time.Since(begin).Seconds())
			return conn, err
		},
		// The certificates of desktops are self-signed: the network to the Pod is the member's own.
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		IdleConnTimeout:     idleTimeout,
		MaxIdleConnsPerHost: 8,
		DisableCompression:  true,
	}
	return &httputil.ReverseProxy{
		Rewrite:        rewrite,
		Transport:      transport,
		ModifyResponse: modify,
		FlushInterval:  -1,
		BufferPool:     &buffers{},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if !errors.Is(err, context.Canceled) {
				log.FromContext(r.Context()).V(1).Info("A desktop did not answer", "host", r.Host, "cause", err.Error())
			}
			http.Error(w, "The desktop does not answer.", http.StatusBadGateway)
		},
	}
}

// buffers is a pool of buffers (httputil.BufferPool).
type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return *buffer
	}
	return make([]byte, bufferSize)
}

func (b *buffers) Put(buffer []byte) { b.pool.Put(&buffer) }

// untrusted are the headers by which a desktop, or a proxy in it, may believe who a user is.
var untrusted = []string{"Impersonate-", "X-Remote-", "X-Forwarded-", "Forwarded"}

// rewrite addresses a request to the desktop's Pod, with the desktop's own credentials, and without what is the
// door's.
func rewrite(p *httputil.ProxyRequest) {
	v := p.In.Context().Value(visitKey{}).(visited)
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", v.desktop.Address, p.In.Host
	if v.desktop.TLS {
		p.Out.URL.Scheme = "https"
	}
	for name := range p.Out.Header {
		for _, prefix := range untrusted {
			if strings.HasPrefix(name, prefix) {
				p.Out.Header.Del(name)
			}
		}
	}
	visit.Strip(p.Out.Header)
	p.SetXForwarded()
	// TLS ends before the door, if there is any.
	scheme, _, _ := strings.Cut(v.console.origin, ":")
	p.Out.Header.Set("X-Forwarded-Proto", scheme)
	if v.desktop.Secret.Name != "" {
		p.Out.SetBasicAuth(v.credentials.Username, v.credentials.Password)
	}
}

// modify removes from a response what would keep the console from framing the desktop, and what could reach other
// hosts.
func modify(r *http.Response) error {
	v := r.Request.Context().Value(visitKey{}).(visited)
	r.Header.Del("X-Frame-Options")
	r.Header["Set-Cookie"] = ownCookies(r.Header["Set-Cookie"])
	if len(r.Header["Set-Cookie"]) == 0 {
		delete(r.Header, "Set-Cookie")
	}
	r.Header["Content-Security-Policy"] = framedBy(r.Header["Content-Security-Policy"], v.console.origin)
	return nil
}

// ownCookies returns cookies without the door's, and without a domain: they are for the desktop's host.
func ownCookies(lines []string) []string {
	var kept []string
	for _, line := range lines {
		if strings.HasPrefix(strings.TrimSpace(line), "__Host-vdi-") {
			continue
		}
		attributes := strings.Split(line, ";")
		own := attributes[:1]
		for _, attribute := range attributes[1:] {
			if name, _, _ := strings.Cut(strings.TrimSpace(attribute), "="); !strings.EqualFold(name, "Domain") {
				own = append(own, attribute)
			}
		}
		kept = append(kept, strings.Join(own, ";"))
	}
	return kept
}

// framedBy returns policies in which only the console and the desktop itself may frame it. Other directives stay.
func framedBy(policies []string, console string) []string {
	frame := "frame-ancestors " + console + " 'self'"
	var out []string
	for _, policy := range policies {
		var directives []string
		for _, directive := range strings.Split(policy, ";") {
			directive = strings.TrimSpace(directive)
			if name, _, _ := strings.Cut(directive, " "); directive != "" && !strings.EqualFold(name, "frame-ancestors") {
				directives = append(directives, directive)
			}
		}
		if len(directives) > 0 {
			out = append(out, strings.Join(directives, "; "))
		}
	}
	return append(out, frame)
}
