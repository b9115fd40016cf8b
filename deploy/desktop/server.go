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

// What is served where.
const (
	activityPath = "/.well-known/vdi/activity"
	loginPath    = "/login"
	pagePath     = "/vnc.html"
	socketPath   = "/websockify"
	// pageQuery has noVNC connect at once and again, and the desktop take the
	// size of the browser's window.
	pageQuery = "?autoconnect=true&reconnect=true&resize=remote"
)

// idler knows how long nobody has used the desktop.
type idler interface {
	idle() (time.Duration, error)
}

// newHandler serves noVNC in the directory page, and the X server behind the socket,
// to whom the door lets in; without a door to everybody. Open desktops end with ctx.
func newHandler(ctx context.Context, page, socket string, gate *door, used idler) http.Handler {
	inside := http.NewServeMux()
	inside.Handle("GET /{$}", http.RedirectHandler(pagePath+pageQuery, http.StatusSeeOther))
	inside.Handle("GET "+socketPath, bridge(ctx, socket))
	inside.Handle("GET /", http.FileServerFS(os.DirFS(page)))
	mux := http.NewServeMux()
	mux.Handle("GET "+activityPath, direct(activity(used)))
	if gate == nil {
		mux.Handle("/", inside)
		return unframed(mux)
	}
	mux.HandleFunc("GET "+loginPath, gate.ask)
	mux.HandleFunc("POST "+loginPath, gate.enter)
	mux.Handle("/", gate.guard(inside))
	return unframed(mux)
}

// unframed has browsers show nothing of this in a page of another origin, where its
// user could be made to click.
func unframed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "frame-ancestors 'self'")
		next.ServeHTTP(w, r)
	})
}

// direct serves requests that name the address at which they arrived, as the agent's
// do: it knows the Pod by its IP. What comes through a gateway names the session's
// host, or says whom it was forwarded for, and is told that there is nothing.
func direct(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !namesOwnAddress(r) || slices.ContainsFunc(forwarded, func(header string) bool { return r.Header.Get(header) != "" }) {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// forwarded are headers by which a proxy tells of itself.
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

// activity tells how long nobody has used the desktop.
func activity(used idler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		idle, err := used.idle()
		if err != nil {
			slog.Warn("The X server does not report whether it is used", "error", err)
			http.Error(w, "not known", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(map[string]float64{"idleSeconds": idle.Seconds()}) // whoever asked may be gone
	})
}

// bridge carries VNC between a browser's websocket and the X server. A page of
// another origin gets none, though the browser would send its cookie along.
func bridge(ctx context.Context, socket string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server, err := net.Dial("unix", socket)
		if err != nil {
			slog.Warn("The X server takes no connection", "error", err)
			http.Error(w, "the desktop does not answer", http.StatusBadGateway)
			return
		}
		defer server.Close()
		ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"binary"}})
		if err != nil {
			return // the browser was told why
		}
		defer func() { _ = ws.CloseNow() }() // it may be closed
		ws.SetReadLimit(-1)                  // what is pasted may be long
		browser := websocket.NetConn(ctx, ws, websocket.MessageBinary)
		ended := make(chan struct{}, 2)
		carry := func(to io.Writer, from io.Reader) {
			_, _ = io.Copy(to, from) // an error is an end as any other
			ended <- struct{}{}
		}
		go carry(server, browser)
		go carry(browser, server)
		<-ended
		_ = ws.Close(websocket.StatusNormalClosure, "") // the browser may be gone
	})
}
