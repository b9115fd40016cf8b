package console

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
)

// proxy stands between a browser and the fleet.
type proxy struct {
	*httptest.Server
	// websockets lets WebSockets pass: browsers open them by CONNECT. cookies lets the cookies of doors pass.
	websockets, cookies atomic.Bool
}

func newProxy(t *testing.T) *proxy {
	t.Helper()
	to, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	fleet := net.JoinHostPort("127.0.0.1", to.Port())
	p := &proxy{}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = "http", fleet, r.In.Host
		},
		ModifyResponse: func(r *http.Response) error {
			if strings.HasPrefix(r.Request.URL.Path, doorPrefix) && !p.cookies.Load() {
				r.Header.Del("Set-Cookie")
			}
			return nil
		},
		FlushInterval: -1,
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodConnect:
			forward.ServeHTTP(w, r)
		case p.websockets.Load():
			tunnel(w, fleet)
		default:
			http.Error(w, "no WebSockets", http.StatusForbidden)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// tunnel connects a browser's connection with an address.
func tunnel(w http.ResponseWriter, address string) {
	there, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	_, _ = io.WriteString(here, "HTTP/1.1 200 Connected\r\n\r\n")
	go func() {
		_, _ = io.Copy(there, buffered)
		_ = there.Close()
	}()
	_, _ = io.Copy(here, there)
}

// openBehind starts a browser behind a proxy.
func openBehind(t *testing.T, p *proxy) *browser {
	t.Helper()
	return open(t, chromedp.ProxyServer(p.URL), chromedp.Flag("proxy-bypass-list", "<-loopback>"))
}
