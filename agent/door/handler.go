package door

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

// ReadyPath answers 204 once the door admits browsers, at any host.
const ReadyPath = visit.Prefix + "ready"

// handler admits browsers to desktops.
type handler struct {
	desktops Desktops
	// console returns the console, nil before the hub has sent its keys.
	console func() *console
	now     func() time.Time
	proxy   http.Handler
}

// visitKey is the key of a request's visit in its context.
type visitKey struct{}

// visited is a request that is admitted.
type visited struct {
	desktop     Desktop
	credentials Credentials
	pass        visit.Pass
	console     *console
}

// ServeHTTP admits or refuses a request (http.Handler).
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	console := h.console()
	if console == nil {
		http.Error(w, "This door has not received the keys of the console yet. Try again in a moment.", http.StatusServiceUnavailable)
		return
	}
	host := hostOf(r.Host)
	label, _, _ := strings.Cut(host, ".")
	cookies := visit.Cookies{CrossSite: console.crossSite(host)}
	switch {
	case r.URL.Path == ReadyPath:
		w.WriteHeader(http.StatusNoContent)
		return
	case r.URL.Path == visit.EnterPath && r.Method == http.MethodPost:
		h.enter(w, r, console, cookies, label)
		return
	case strings.HasPrefix(r.URL.Path, visit.Prefix):
		visit.Hello(console.origin, cookies).ServeHTTP(w, r)
		return
	}
	desktop, found := h.desktops.ByLabel(r.Context(), label)
	pass, err := console.keys.Verify(visit.Value(r, visit.PassCookie), visit.Value(r, visit.NonceCookie), h.now())
	if err == nil {
		err = pass.Opens(string(desktop.Session.UID), desktop.Epoch)
	}
	if !found || err != nil {
		visits.WithLabelValues(resultRefused).Inc()
		refuse(w, r, console, desktop, found)
		return
	}
	if fromElsewhere(r) {
		visits.WithLabelValues(resultRefused).Inc()
		if isPerson(r) {
			http.Redirect(w, r, console.pageOf(desktop), http.StatusSeeOther)
			return
		}
		http.Error(w, "A page of another host may not use this desktop.", http.StatusForbidden)
		return
	}
	h.forward(w, r, visited{desktop: desktop, pass: pass, console: console})
}

// forward forwards an admitted request to its desktop.
func (h *handler) forward(w http.ResponseWriter, r *http.Request, v visited) {
	if v.desktop.Address == "" {
		visits.WithLabelValues(resultAway).Inc()
		if isPerson(r) { // who reads there why, and can wake it
			http.Redirect(w, r, v.console.pageOf(v.desktop), http.StatusSeeOther)
			return
		}
		http.Error(w, "The desktop is not ready.", http.StatusServiceUnavailable)
		return
	}
	if v.desktop.Secret.Name != "" {
		var err error
		if v.credentials, err = h.desktops.Credentials(r.Context(), v.desktop); err != nil {
			visits.WithLabelValues(resultAway).Inc()
			if !errors.Is(err, errNotStored) {
				log.FromContext(r.Context()).Error(err, "A desktop can't be opened", "session", v.desktop.Session.Namespace+"/"+v.desktop.Session.Name)
			}
			http.Error(w, "The desktop's credentials can't be read. If it lasts, ask your administrator.", http.StatusServiceUnavailable)
			return
		}
	}
	visits.WithLabelValues(resultAdmitted).Inc()
	// A connection ends with the pass.
	ctx, cancel := context.WithDeadline(context.WithValue(r.Context(), visitKey{}, v), v.pass.End())
	defer cancel()
	if isWebSocket(r) {
		counted := &connection{ResponseWriter: w}
		defer counted.audit(r, v, h.now())()
		w = counted
	}
	h.proxy.ServeHTTP(w, r.WithContext(ctx))
}

// hostOf returns a host without its port and a final dot, in lower case.
func hostOf(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isWebSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// fromElsewhere reports whether a page of another host has caused the request, for example another desktop's, which is
// of the same site and so has the browser send its cookies. The door adds the desktop's credentials, and many desktops
// change something by a GET, so no method is safe.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-site", "cross-site":
		return true
	}
	return isWebSocket(r) && !visit.OwnOrigin(r)
}

// isPerson reports whether a person opens an address, and no page.
func isPerson(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// refuse leads a person to the session's page of the console, which obtains a pass, and refuses everything else. Without
// a desktop the page is the console's first: no one learns from here which sessions exist.
func refuse(w http.ResponseWriter, r *http.Request, console *console, desktop Desktop, found bool) {
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case isPerson(r) && found:
		http.Redirect(w, r, console.pageOf(desktop), http.StatusSeeOther)
	case isPerson(r):
		http.Redirect(w, r, console.origin+"/", http.StatusSeeOther)
	default:
		http.Error(w, "Open this desktop from the console.", http.StatusUnauthorized)
	}
}

// maxPass is the length of what a browser enters with.
const maxPass = 4 << 10

// enter admits a browser with a pass. It answers with the path of the desktop's page.
func (h *handler) enter(w http.ResponseWriter, r *http.Request, console *console, cookies visit.Cookies, label string) {
	w.Header().Set("Cache-Control", "no-store")
	if !visit.OwnOrigin(r) {
		http.Error(w, "A page of another host may not enter.", http.StatusForbidden)
		return
	}
	token, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxPass))
	if err != nil {
		http.Error(w, "The pass is too long.", http.StatusRequestEntityTooLarge)
		return
	}
	desktop, found := h.desktops.ByLabel(r.Context(), label)
	nonce := visit.Value(r, visit.NonceCookie)
	pass, err := console.keys.Verify(string(token), nonce, h.now())
	if err == nil {
		err = errors.Join(pass.MayEnter(h.now()), pass.Opens(string(desktop.Session.UID), desktop.Epoch))
	}
	if !found || err != nil {
		visits.WithLabelValues(resultRefused).Inc()
		log.FromContext(r.Context()).V(1).Info("A browser was refused", "host", r.Host, "cause", err)
		http.Error(w, "This pass does not open this desktop.", http.StatusForbidden)
		return
	}
	visits.WithLabelValues(resultEntered).Inc()
	for _, cookie := range cookies.Entered(string(token), nonce, pass, h.now()) {
		http.SetCookie(w, cookie)
	}
	path := desktop.Path
	if path == "" {
		path = "/"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, path) // the browser may be gone
}
