package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"
)

// Paths of the endpoints.
const (
	activityPath = "/.well-known/vdi/activity"
	loginPath    = "/login"
	pagePath     = "/vnc.html"
	socketPath   = "/websockify"
	// pageQuery makes noVNC connect and reconnect automatically, and resizes the desktop to
	// the browser's window.
	pageQuery = "?autoconnect=true&reconnect=true&resize=remote"
)

// idler returns how long the desktop is unused.
type idler interface {
	idle() (time.Duration, error)
}

// newHandler serves noVNC in the directory page, and the X server behind the socket, to
// callers that have logged in; to all callers if auth is nil. Connections end with ctx.
func newHandler(ctx context.Context, page, socket string, auth *login, used idler) http.Handler {
	inside := http.NewServeMux()
	inside.Handle("GET /{$}", http.RedirectHandler(pagePath+pageQuery, http.StatusSeeOther))
	inside.Handle("GET "+socketPath, bridge(ctx, socket))
	inside.Handle("GET /", http.FileServerFS(os.DirFS(page)))
	mux := http.NewServeMux()
	mux.Handle("GET "+activityPath, direct(activity(used)))
	if auth == nil {
		mux.Handle("/", inside)
		return unframed(mux)
	}
	mux.HandleFunc("GET "+loginPath, auth.form)
	mux.HandleFunc("POST "+loginPath, auth.submit)
	mux.Handle("/", auth.require(inside))
	return unframed(mux)
}

// unframed forbids browsers to show the responses in pages of other origins, to prevent
// clickjacking.
func unframed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "frame-ancestors 'self'")
		next.ServeHTTP(w, r)
	})
}

// direct serves requests whose host is the address at which they arrived, as the agent's,
// which uses the Pod's IP. Requests through a gateway have the session's host or forwarding
// headers, and get 404.
func direct(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !namesOwnAddress(r) || slices.ContainsFunc(forwarded, func(header string) bool { return r.Header.Get(header) != "" }) {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// forwarded are headers that proxies add.
var forwarded = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip"}

func namesOwnAddress(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	if err != nil {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	named, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && named.Unmap() == at.Addr().Unmap()
}

// activity reports how long the desktop is unused.
func activity(used idler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		idle, err := used.idle()
		if err != nil {
			slog.Warn("The X server does not report activity", "error", err)
			http.Error(w, "unknown", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(map[string]float64{"idleSeconds": idle.Seconds()}) // the client may have disconnected
	})
}

// bridge carries VNC between a browser's websocket and the X server. Pages of other origins
// are denied, although the browser would send the cookie.
func bridge(ctx context.Context, socket string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server, err := net.Dial("unix", socket)
		if err != nil {
			slog.Warn("The X server refuses the connection", "error", err)
			http.Error(w, "the desktop does not answer", http.StatusBadGateway)
			return
		}
		defer server.Close()
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"binary"}})
		if err != nil {
			return // the response has the error
		}
		defer func() { _ = ws.CloseNow() }() // may be closed already
		ws.SetReadLimit(-1)                  // pasted text may be long
		browser := websocket.NetConn(ctx, ws, websocket.MessageBinary)
		ended := make(chan struct{}, 2)
		carry := func(to io.Writer, from io.Reader) {
			_, _ = io.Copy(to, from) // an error ends the connection
			ended <- struct{}{}
		}
		go carry(server, browser)
		go carry(browser, server)
		<-ended
		_ = ws.Close(websocket.StatusNormalClosure, "") // the browser may have disconnected
	})
}
