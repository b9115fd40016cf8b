package console

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/hub/console/login"
)

// Limits of requests.
const (
	maxHeader     = 16 << 10
	maxBody       = 8 << 10
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// drainTimeout is how long requests may take when the console ends. Streams end at once.
	drainTimeout = 5 * time.Second
)

// handler handles a request of a user who has logged in. The page of its error is shown.
type handler func(http.ResponseWriter, *http.Request, login.Identity) error

// routes returns the handler of all requests.
func (c *console) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, h := range map[string]handler{
		"GET /{$}":                            c.home,
		"GET /new/{template}":                 c.newForm,
		"POST /new/{template}":                c.create,
		"GET /d/{template}":                   c.direct,
		"GET /sessions":                       c.list,
		"GET /s/{namespace}/{name}":           c.viewer,
		"POST /s/{namespace}/{name}/{action}": c.act,
		"POST /s/{namespace}/{name}/pass":     c.pass,
		"POST /s/{namespace}/{name}/reach":    c.reach,
		"GET /events":                         c.events,
		"/":                                   func(http.ResponseWriter, *http.Request, login.Identity) error { return errNotFound },
	} {
		mux.Handle(pattern, measured(pattern, c.loggedIn(h)))
	}
	for pattern, h := range map[string]http.HandlerFunc{
		"GET /login":          c.logins.loginForm,
		"POST /login":         c.logins.loginByPassword,
		"GET /login/oidc":     c.logins.loginByOIDC,
		"GET /login/callback": c.logins.loginCallback,
		"POST /logout":        c.logins.logout,

		"GET /t/{namespace}/{name}":        c.logins.ticketForm,
		"POST /t/{namespace}/{name}/login": c.logins.loginByTicket,
	} {
		mux.Handle(pattern, measured(pattern, h))
	}
	mux.Handle("GET /static/", assets())
	return c.protected(http.MaxBytesHandler(mux, maxBody))
}

// protected sets what keeps pages apart from others, and refuses requests that change something and come from
// another site, or from a desktop, whose host may be of the same site.
func (c *console) protected(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin-allow-popups")
		if c.url.Scheme == "https" {
			h.Set("Strict-Transport-Security", "max-age=31536000")
		}
		if !c.isOwnHost(r.Host) {
			http.Error(w, "The console has another address. Ask your administrator.", http.StatusMisdirectedRequest)
			return
		}
		id := rand.Text()
		logger := log.FromContext(r.Context()).WithValues("request", id)
		ctx := log.IntoContext(withRequestID(r.Context(), id), logger)
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// contentSecurityPolicy permits what the console's own pages need.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

// isOwnHost reports whether a request is for the console's own address: another name that leads here would be
// another site with its own cookies.
func (c *console) isOwnHost(host string) bool { return host == c.url.Host }

// loggedIn calls a handler with the user of a request, or leads a browser to the login.
func (c *console) loggedIn(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		user, ok := c.logins.cookies.Identity(r)
		switch {
		case ok:
			if err := h(w, r, user); err != nil {
				c.fail(w, r, user, err)
			}
		case r.Method == http.MethodGet && r.URL.Path != "/events":
			http.Redirect(w, r, "/login?"+url.Values{"to": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
		default:
			http.Error(w, "Log in first.", http.StatusUnauthorized)
		}
	}
}

// fail shows the page of an error.
func (c *console) fail(w http.ResponseWriter, r *http.Request, user login.Identity, err error) {
	code, text := statusOf(err)
	if code >= http.StatusInternalServerError && !errors.Is(err, context.Canceled) {
		log.FromContext(r.Context()).Error(err, "A request failed", "method", r.Method, "path", r.URL.Path, "user", user.Name)
	}
	if err := c.page(w, code, "error", page{Title: http.StatusText(code), User: user, Content: text}); err != nil {
		log.FromContext(r.Context()).Error(err, "Rendering the page of an error")
	}
}

// serve serves until the context ends. certificate is nil if TLS ends before the console.
func (c *console) serve(ctx context.Context, certificate *certwatcher.CertWatcher) error {
	listener, err := net.Listen("tcp", c.options.BindAddress)
	if err != nil {
		return fmt.Errorf("listening for browsers: %w", err)
	}
	c.draining = ctx
	server := &http.Server{
		Handler: c.routes(), MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	ended := make(chan error, 1)
	go func() {
		if certificate != nil {
			server.TLSConfig = &tls.Config{GetCertificate: certificate.GetCertificate, MinVersion: tls.VersionTLS12}
			ended <- server.ServeTLS(listener, "", "")
			return
		}
		ended <- server.Serve(listener)
	}()
	log.FromContext(ctx).Info("Serving", "url", c.options.URL, "address", listener.Addr().String())
	select {
	case err := <-ended:
		return fmt.Errorf("serving browsers: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	return server.Shutdown(drain)
}

// trusted returns the networks of the trusted proxies, which Validate has checked.
func (o *Options) trusted() []netip.Prefix {
	out := make([]netip.Prefix, 0, len(o.TrustedProxies))
	for _, cidr := range o.TrustedProxies {
		out = append(out, netip.MustParsePrefix(cidr))
	}
	return out
}
