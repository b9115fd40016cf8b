package door

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/websocket"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/visit"
)

const (
	host   = "alice-browser-0123456789.eu-west.desktops.example.com"
	origin = "https://vdi.example.com"
)

// desktops are a member's, by label.
type desktops map[string]Desktop

func (d desktops) ByLabel(_ context.Context, label string) (Desktop, bool) {
	found, ok := d[label]
	return found, ok
}

func (d desktops) Credentials(_ context.Context, of Desktop) (Credentials, error) {
	if of.Secret.Name == "gone" {
		return Credentials{}, errors.New("there is no such Secret")
	}
	return Credentials{"desktop", "s3cret of " + of.Secret.Name}, nil
}

// fixture is a door with one desktop, whose requests a test sees.
type fixture struct {
	t       *testing.T
	handler *handler
	private ed25519.PrivateKey
	now     time.Time
	desktop Desktop
	// seen is the last request that the desktop received.
	seen *http.Request
}

// start starts a door before a desktop that answers by a function.
func start(t *testing.T, answer http.HandlerFunc) *fixture {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &fixture{t: t, private: private, now: time.Now()}
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.seen = r
		answer(w, r)
	}))
	t.Cleanup(backend.Close)
	m.desktop = Desktop{
		Session: v1alpha1.SessionReference{Namespace: "desktops", Name: "alice-browser", UID: "uid"}, Epoch: 2,
		Address: strings.TrimPrefix(backend.URL, "http://"), Path: "/vnc.html",
		Secret: types.NamespacedName{Namespace: "desks", Name: "alice-browser-access"},
	}
	stored, _ := json.Marshal(Config{ConsoleOrigin: origin, Domain: "eu-west.desktops.example.com", Keys: map[string][]byte{"a": public}})
	config, err := ParseConfig(string(stored))
	if err != nil {
		t.Fatal(err)
	}
	admits := newConsole(config)
	all := desktops{"alice-browser-0123456789": m.desktop}
	m.handler = &handler{desktops: all, console: func() *console { return admits }, now: func() time.Time { return m.now }, proxy: newProxy()}
	return m
}

// pass returns a signed pass for a browser with the nonce "nonce".
func (m *fixture) pass(change func(*visit.Pass)) string {
	p := visit.Pass{SessionUID: "uid", Epoch: 2, User: "alice", Challenge: visit.Challenge("nonce"), IssuedAt: m.now.Unix(), Expires: m.now.Add(time.Hour).Unix()}
	if change != nil {
		change(&p)
	}
	token, err := visit.Sign(p, "a", m.private)
	if err != nil {
		m.t.Fatal(err)
	}
	return token
}

// request returns a request of a browser with a nonce and, unless it is empty, a pass.
func (m *fixture) request(method, path, pass string) *http.Request {
	r := httptest.NewRequest(method, "https://"+host+path, nil)
	r.AddCookie(&http.Cookie{Name: visit.NonceCookie, Value: "nonce"})
	if pass != "" {
		r.AddCookie(&http.Cookie{Name: visit.PassCookie, Value: pass})
	}
	return r
}

func (m *fixture) do(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	return w
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the desktop")) }

func TestNoByteWithoutAPass(t *testing.T) {
	m := start(t, ok)
	for name, pass := range map[string]string{
		"none": "", "another session": m.pass(func(p *visit.Pass) { p.SessionUID = "other" }),
		"an earlier placement": m.pass(func(p *visit.Pass) { p.Epoch = 1 }),
		"another browser":      m.pass(func(p *visit.Pass) { p.Challenge = visit.Challenge("another") }),
		"over":                 m.pass(func(p *visit.Pass) { p.Expires = m.now.Unix() }),
	} {
		if w := m.do(m.request(http.MethodGet, "/", pass)); w.Code != http.StatusUnauthorized || m.seen != nil {
			t.Errorf("%s: %d, and the desktop saw %v", name, w.Code, m.seen)
		}
		top := m.request(http.MethodGet, "/", pass)
		top.Header.Set("Sec-Fetch-Mode", "navigate")
		top.Header.Set("Sec-Fetch-Dest", "document")
		if w := m.do(top); w.Code != http.StatusSeeOther || w.Header().Get("Location") != origin+"/s/desktops/alice-browser" || m.seen != nil {
			t.Errorf("%s, a person: %d to %s", name, w.Code, w.Header().Get("Location"))
		}
	}
	if w := m.do(m.request(http.MethodGet, "/", m.pass(nil))); w.Code != http.StatusOK || w.Body.String() != "the desktop" {
		t.Errorf("with a pass: %d %s", w.Code, w.Body)
	}
}

// A host without a desktop is refused as one with another user's, except that nothing names a session.
func TestAHostWithoutADesktop(t *testing.T) {
	m := start(t, ok)
	r := m.request(http.MethodGet, "/", m.pass(nil))
	r.Host = "other.eu-west.desktops.example.com"
	if w := m.do(r); w.Code != http.StatusUnauthorized {
		t.Errorf("%d", w.Code)
	}
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	r.Header.Set("Sec-Fetch-Dest", "document")
	if w := m.do(r); w.Header().Get("Location") != origin+"/" {
		t.Errorf("it leads to %s", w.Header().Get("Location"))
	}
}

func TestHostsAreCompared(t *testing.T) {
	m := start(t, ok)
	for _, spelled := range []string{strings.ToUpper(host), host + ".", host + ":443"} {
		r := m.request(http.MethodGet, "/", m.pass(nil))
		r.Host = spelled
		if w := m.do(r); w.Code != http.StatusOK {
			t.Errorf("%s: %d", spelled, w.Code)
		}
	}
}

func (m *fixture) enter(token, origin string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "https://"+host+visit.EnterPath, strings.NewReader(token))
	r.AddCookie(&http.Cookie{Name: visit.NonceCookie, Value: "nonce"})
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	return m.do(r)
}

func TestEnter(t *testing.T) {
	m := start(t, ok)
	w := m.enter(m.pass(nil), "https://"+host)
	if w.Code != http.StatusOK || w.Body.String() != "/vnc.html" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	r := httptest.NewRequest(http.MethodGet, "https://"+host+"/vnc.html", nil)
	var size int
	for _, cookie := range w.Result().Cookies() {
		r.AddCookie(cookie)
		size += len(cookie.Name) + len(cookie.Value)
		if !cookie.HttpOnly || !cookie.Secure || cookie.Domain != "" || cookie.MaxAge < 3590 {
			t.Errorf("%s", cookie)
		}
	}
	if size > 700 {
		t.Errorf("the cookies of a desktop's host have %d bytes", size)
	}
	if w := m.do(r); w.Code != http.StatusOK {
		t.Errorf("after entering: %d", w.Code)
	}
	for name, tc := range map[string]struct {
		token, origin string
		code          int
	}{
		"from another page":  {m.pass(nil), "https://evil.example.com", http.StatusForbidden},
		"from no page":       {m.pass(nil), "", http.StatusForbidden},
		"a minute later":     {m.pass(func(p *visit.Pass) { p.IssuedAt -= 60 }), "https://" + host, http.StatusForbidden},
		"of another session": {m.pass(func(p *visit.Pass) { p.SessionUID = "other" }), "https://" + host, http.StatusForbidden},
		"nothing":            {"", "https://" + host, http.StatusForbidden},
		"too much":           {strings.Repeat("a", 1<<20), "https://" + host, http.StatusRequestEntityTooLarge},
	} {
		if w := m.enter(tc.token, tc.origin); w.Code != tc.code || len(w.Result().Cookies()) > 0 {
			t.Errorf("%s: %d with %v", name, w.Code, w.Result().Cookies())
		}
	}
}

func TestWhatADesktopReceives(t *testing.T) {
	m := start(t, ok)
	r := m.request(http.MethodGet, "/a?b=c", m.pass(nil))
	r.AddCookie(&http.Cookie{Name: "theme", Value: "dark"})
	for _, name := range []string{"Impersonate-User", "X-Remote-User", "X-Forwarded-User", "X-Forwarded-For", "Forwarded"} {
		r.Header.Set(name, "mallory")
	}
	if w := m.do(r); w.Code != http.StatusOK {
		t.Fatal(w.Code)
	}
	if got := m.seen.Header.Get("Cookie"); got != "theme=dark" {
		t.Errorf("its cookies are %q", got)
	}
	for _, name := range []string{"Impersonate-User", "X-Remote-User", "X-Forwarded-User", "Forwarded"} {
		if got := m.seen.Header.Get(name); got != "" {
			t.Errorf("%s is %q", name, got)
		}
	}
	if got := m.seen.Header.Get("X-Forwarded-For"); strings.Contains(got, "mallory") {
		t.Errorf("X-Forwarded-For is %q", got)
	}
	user, password, _ := m.seen.BasicAuth()
	if user != "desktop" || password != "s3cret of alice-browser-access" {
		t.Errorf("its credentials are %q, %q", user, password)
	}
	if m.seen.Host != host || m.seen.URL.RequestURI() != "/a?b=c" {
		t.Errorf("it is asked for %s%s", m.seen.Host, m.seen.URL.RequestURI())
	}
}

// A desktop without a password of ours keeps what the browser sends.
func TestADesktopWithItsOwnLogin(t *testing.T) {
	m := start(t, ok)
	m.desktop.Secret.Name = ""
	m.handler.desktops = desktops{"alice-browser-0123456789": m.desktop}
	r := m.request(http.MethodGet, "/", m.pass(nil))
	r.SetBasicAuth("me", "mine")
	m.do(r)
	if user, password, _ := m.seen.BasicAuth(); user != "me" || password != "mine" {
		t.Errorf("its credentials are %q, %q", user, password)
	}
}

func TestWhatADesktopSends(t *testing.T) {
	m := start(t, func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
		h.Add("Set-Cookie", "theme=dark; Domain=desktops.example.com; Path=/; Secure")
		h.Add("Set-Cookie", visit.NonceCookie+"=known; Path=/; Secure")
	})
	h := m.do(m.request(http.MethodGet, "/", m.pass(nil))).Header()
	want := http.Header{
		"Set-Cookie":              {"theme=dark; Path=/; Secure"},
		"Content-Security-Policy": {"default-src 'self'", "frame-ancestors " + origin + " 'self'"},
	}
	for name := range want {
		if diff := cmp.Diff(want[name], h[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if h.Get("X-Frame-Options") != "" {
		t.Error("X-Frame-Options is sent")
	}
}

// dial opens a WebSocket through a door, from a page of an origin.
func dial(t *testing.T, m *fixture, server *httptest.Server, pass, origin string) (*websocket.Conn, error) {
	t.Helper()
	config, err := websocket.NewConfig(strings.Replace(server.URL, "http", "ws", 1)+"/socket", origin)
	if err != nil {
		t.Fatal(err)
	}
	config.Header = http.Header{"Cookie": {visit.NonceCookie + "=nonce; " + visit.PassCookie + "=" + pass}}
	return config.DialContext(context.Background())
}

func TestWebSockets(t *testing.T) {
	echo := websocket.Server{Handler: func(conn *websocket.Conn) { _, _ = io.Copy(conn, conn) }}
	m := start(t, echo.ServeHTTP)
	m.handler.desktops = desktops{"127": m.desktop} // the first label of the test server's host
	server := httptest.NewServer(m.handler)
	defer server.Close()
	if _, err := dial(t, m, server, m.pass(nil), "https://evil.example.com"); err == nil || m.seen != nil {
		t.Errorf("a page of another host: %v, and the desktop saw %v", err, m.seen)
	}
	if _, err := dial(t, m, server, "", server.URL); err == nil || m.seen != nil {
		t.Errorf("without a pass: %v, and the desktop saw %v", err, m.seen)
	}
	conn, err := dial(t, m, server, m.pass(func(p *visit.Pass) { p.Expires = m.now.Add(2 * time.Second).Unix() }), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var got string
	if err := errors.Join(websocket.Message.Send(conn, "key a"), websocket.Message.Receive(conn, &got)); err != nil || got != "key a" {
		t.Errorf("%q, %v", got, err)
	}
	// The connection ends with the pass.
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := websocket.Message.Receive(conn, &got); err == nil || errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "timeout") {
		t.Errorf("after the end of the pass: %q, %v", got, err)
	}
}

func TestADoorWithoutAConsole(t *testing.T) {
	m := start(t, ok)
	m.handler.console = func() *console { return nil }
	if w := m.do(m.request(http.MethodGet, "/", m.pass(nil))); w.Code != http.StatusServiceUnavailable || m.seen != nil {
		t.Errorf("%d", w.Code)
	}
}

func TestSites(t *testing.T) {
	for _, tc := range []struct {
		console, host string
		cross         bool
	}{
		{"https://vdi.example.com", "a.eu-west.desktops.example.com", false},
		{"https://vdi.example.com", "a.desktops.example.net", true},
		{"http://vdi.localhost:8088", "a.eu-west.vdi.localhost", false},
		{"https://vdi.example.co.uk", "a.other.co.uk", true},
		{"https://10.0.0.1", "a.example.com", true},
	} {
		if got := newConsole(&Config{ConsoleOrigin: tc.console}).crossSite(tc.host); got != tc.cross {
			t.Errorf("%s and %s: %v", tc.console, tc.host, got)
		}
	}
}

func TestAnInvalidConfigurationIsRefused(t *testing.T) {
	valid := Config{ConsoleOrigin: origin, Domain: "eu-west.desktops.example.com", Keys: map[string][]byte{"a": make([]byte, 32)}}
	for name, change := range map[string]func(*Config){
		"":                    func(*Config) {},
		"no console":          func(c *Config) { c.ConsoleOrigin = "" },
		"a console's page":    func(c *Config) { c.ConsoleOrigin = origin + "/s" },
		"another scheme":      func(c *Config) { c.ConsoleOrigin = "javascript://x" },
		"no domain":           func(c *Config) { c.Domain = "" },
		"all hosts":           func(c *Config) { c.Domain = "*" },
		"a key of other size": func(c *Config) { c.Keys = map[string][]byte{"a": {1}} },
	} {
		c := valid
		change(&c)
		stored, _ := json.Marshal(c)
		if _, err := ParseConfig(string(stored)); (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A desktop whose credentials can't be read is not opened without them: it would show its login.
func TestADesktopWithoutItsCredentials(t *testing.T) {
	m := start(t, ok)
	m.desktop.Secret.Name = "gone"
	m.handler.desktops = desktops{"alice-browser-0123456789": m.desktop}
	if w := m.do(m.request(http.MethodGet, "/", m.pass(nil))); w.Code != http.StatusServiceUnavailable || m.seen != nil {
		t.Errorf("%d, and the desktop saw %v", w.Code, m.seen)
	}
}

// Whoever opens the address of a desktop that is suspended or starts is led to the page that says so.
func TestADesktopThatIsNotReady(t *testing.T) {
	m := start(t, ok)
	m.desktop.Address = ""
	m.handler.desktops = desktops{"alice-browser-0123456789": m.desktop}
	if w := m.do(m.request(http.MethodGet, "/", m.pass(nil))); w.Code != http.StatusServiceUnavailable {
		t.Errorf("%d", w.Code)
	}
	person := m.request(http.MethodGet, "/", m.pass(nil))
	person.Header.Set("Sec-Fetch-Mode", "navigate")
	person.Header.Set("Sec-Fetch-Dest", "document")
	if w := m.do(person); w.Code != http.StatusSeeOther || w.Header().Get("Location") != origin+"/s/desktops/alice-browser" {
		t.Errorf("a person: %d to %s", w.Code, w.Header().Get("Location"))
	}
}

func TestReady(t *testing.T) {
	m := start(t, ok)
	r := httptest.NewRequest(http.MethodGet, "http://vdi-door.vdi-system.svc"+ReadyPath, http.NoBody)
	if w := m.do(r); w.Code != http.StatusNoContent {
		t.Errorf("%d", w.Code)
	}
	m.handler.console = func() *console { return nil }
	if w := m.do(r); w.Code != http.StatusServiceUnavailable {
		t.Errorf("without the keys: %d", w.Code)
	}
}
