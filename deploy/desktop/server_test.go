package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const secret = "correct-horse-battery-staple"

// used is the idle time that a test sets.
type used struct {
	ago time.Duration
	err error
}

func (u used) idle() (time.Duration, error) { return u.ago, u.err }

// testServer is a desktop's server, without an X server.
type testServer struct {
	t *testing.T
	*httptest.Server
	file string
}

func newTestServer(t *testing.T, u used, socket string) *testServer {
	t.Helper()
	page := t.TempDir()
	if err := os.WriteFile(filepath.Join(page, "vnc.html"), []byte("noVNC"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &testServer{t: t, file: filepath.Join(t.TempDir(), "password")}
	h.write(secret + "\n")
	h.Server = httptest.NewTLSServer(newHandler(t.Context(), page, socket, newLogin(h.file), u))
	t.Cleanup(h.Close)
	return h
}

func (h *testServer) write(password string) {
	h.t.Helper()
	if err := os.WriteFile(h.file, []byte(password), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// browser returns a client that keeps cookies and follows redirects.
func (h *testServer) browser() *http.Client {
	h.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return &http.Client{Jar: jar, Transport: h.Client().Transport}
}

func (h *testServer) get(c *http.Client, path string) (int, string) {
	h.t.Helper()
	return h.read(c.Get(h.URL + path))
}

func (h *testServer) login(c *http.Client, password string) (int, string) {
	h.t.Helper()
	return h.read(c.PostForm(h.URL+loginPath, url.Values{"password": {password}}))
}

func (h *testServer) read(r *http.Response, err error) (int, string) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func TestWhoKnowsThePasswordGetsIn(t *testing.T) {
	h := newTestServer(t, used{}, "")
	c := h.browser()
	if _, body := h.get(c, "/"); !strings.Contains(body, `type="password"`) {
		t.Fatalf("without a login: %q", body)
	}
	if status, body := h.login(c, secret); status != http.StatusOK || body != "noVNC" {
		t.Fatalf("after the login: %d %q", status, body)
	}
	if status, _ := h.get(c, "/vnc.html"); status != http.StatusOK {
		t.Errorf("with the cookie: %d", status)
	}
}

func TestNobodyElseGetsIn(t *testing.T) {
	h := newTestServer(t, used{}, "")
	for _, guess := range []string{"", "wrong", secret[:8], secret + "x", strings.ToUpper(secret)} {
		c := h.browser()
		if status, body := h.login(c, guess); status != http.StatusForbidden || !strings.Contains(body, "role=\"alert\"") {
			t.Errorf("%q: %d", guess, status)
		}
		if _, body := h.get(c, "/vnc.html"); body == "noVNC" {
			t.Errorf("%q is accepted", guess)
		}
	}
	c := h.browser()
	for _, path := range []string{socketPath, "/core/rfb.js", "/app/"} {
		if status, _ := h.get(c, path); status != http.StatusUnauthorized {
			t.Errorf("%s: %d without a login", path, status)
		}
	}
}

// A changed password invalidates the logins with the old one.
func TestAPasswordThatChangesShutsOutWhoCameWithTheOldOne(t *testing.T) {
	h := newTestServer(t, used{}, "")
	c := h.browser()
	h.login(c, secret)
	h.write("another")
	if _, body := h.get(c, "/vnc.html"); body == "noVNC" {
		t.Error("the old cookie is accepted")
	}
	if _, body := h.login(c, "another"); body != "noVNC" {
		t.Error("the new password does not")
	}
	h.write("")
	if status, _ := h.login(c, ""); status == http.StatusOK {
		t.Error("an empty password file accepts logins")
	}
}

// The agent uses the Pod's IP.
func TestWhoAsksAtThePodsAddressIsToldWhetherItIsUsed(t *testing.T) {
	h := newTestServer(t, used{ago: 12500 * time.Millisecond}, "")
	status, body := h.get(h.browser(), activityPath)
	var answer map[string]float64
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("%d %q: %v", status, body, err)
	}
	if len(answer) != 1 || answer["idleSeconds"] != 12.5 {
		t.Errorf("%v", answer)
	}
}

// ask requests the activity with a host and a header.
func (h *testServer) ask(host, header string) (int, string) {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.URL+activityPath, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	if host != "" {
		request.Host = host
	}
	if header != "" {
		request.Header.Set(header, "203.0.113.7")
	}
	return h.read(h.Client().Do(request))
}

func TestNobodyAsksThroughAGatewayWhetherItIsUsed(t *testing.T) {
	h := newTestServer(t, used{}, "")
	if status, _ := h.ask("", ""); status != http.StatusOK {
		t.Fatalf("the agent is answered %d", status)
	}
	for what, request := range map[string]struct{ host, header string }{
		"the session's host":         {host: "vdi-1234.desktops.example.com"},
		"a host and port":            {host: "vdi-1234.desktops.example.com:443"},
		"another address":            {host: "192.0.2.1"},
		"no host of an address":      {host: "localhost"},
		"the Pod's, and forwarded":   {header: "X-Forwarded-For"},
		"the Pod's, and by a proxy":  {header: "Via"},
		"the Pod's, and RFC 7239":    {header: "Forwarded"},
		"the Pod's, and a real host": {header: "X-Real-IP"},
	} {
		if status, body := h.ask(request.host, request.header); status != http.StatusNotFound || strings.Contains(body, "idleSeconds") {
			t.Errorf("%s: %d %q", what, status, body)
		}
	}
}

func TestOnesOwnAddressIsKnownInEveryForm(t *testing.T) {
	for _, test := range []struct {
		local, host string
		want        bool
	}{
		{"10.1.2.3:6901", "10.1.2.3:6901", true},
		{"10.1.2.3:6901", "10.1.2.3", true},
		{"[::ffff:10.1.2.3]:6901", "10.1.2.3:6901", true},
		{"[fd00::1]:6901", "[fd00::1]:6901", true},
		{"[fd00::1]:6901", "[fd00:0::1]", true},
		{"[fd00::1]:6901", "[fd00::2]", false},
		{"10.1.2.3:6901", "10.1.2.30", false},
		{"10.1.2.3:6901", "10.1.2.3.example.com", false},
		{"10.1.2.3:6901", "", false},
	} {
		local := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(test.local))
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(local)), http.MethodGet, "/", nil)
		r.Host = test.host
		if got := namesOwnAddress(r); got != test.want {
			t.Errorf("%s at %s: %v", test.host, test.local, got)
		}
	}
}

// Another desktop under the same domain sets a cookie that the browser sends first.
func TestACookieOfAnotherDesktopShutsNobodyOut(t *testing.T) {
	h := newTestServer(t, used{}, "")
	c := h.browser()
	h.login(c, secret)
	at, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	cookies := c.Jar.Cookies(at)
	if len(cookies) != 1 || !strings.HasPrefix(cookies[0].Name, "__Host-") {
		t.Fatalf("the login is %v", cookies)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+"/vnc.html", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Cookie", cookieName+"=tossed; "+cookies[0].String())
	if status, body := h.read(h.Client().Do(request)); status != http.StatusOK || body != "noVNC" {
		t.Errorf("%d %q", status, body)
	}
}

// Browsers reject a cookie with this prefix if it lacks one of these attributes.
func TestALoginIsForThisHostAndHTTPSAlone(t *testing.T) {
	h := newTestServer(t, used{}, "")
	client := &http.Client{Transport: h.Client().Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.PostForm(h.URL+loginPath, url.Values{"password": {secret}})
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if all := response.Cookies(); len(all) != 1 || !all[0].Secure || !all[0].HttpOnly || all[0].Path != "/" || all[0].Domain != "" {
		t.Errorf("%v", all)
	}
}

func TestNoPageOfAnotherOriginShowsIt(t *testing.T) {
	h := newTestServer(t, used{}, "")
	c := h.browser()
	for range 2 { // without and with a login
		for _, path := range []string{"/", loginPath, pagePath, "/no-such-page", activityPath} {
			response, err := c.Get(h.URL + path)
			if err != nil {
				t.Fatal(err)
			}
			if got := response.Header.Get("Content-Security-Policy"); response.Body.Close() != nil || got != "frame-ancestors 'self'" {
				t.Errorf("%s: %q", path, got)
			}
		}
		h.login(c, secret)
	}
}

// Callers without the password can send any number of logins: they are refused at once, and
// are not queued before the user's.
// The door of a member supplies the password with each request.
func TestBasicAuthentication(t *testing.T) {
	h := newTestServer(t, used{}, "")
	shows := func(password string) bool {
		request, err := http.NewRequest(http.MethodGet, h.URL+pagePath, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth("desktop", password)
		_, body := h.read(h.Client().Do(request))
		return body == "noVNC"
	}
	for range 3 * loginBurst {
		if !shows(secret) {
			t.Fatal("the password is refused")
		}
	}
	for range loginBurst + 5 {
		if shows("guess") {
			t.Fatal("another one is accepted")
		}
	}
	if shows(secret) {
		t.Error("guesses are not limited")
	}
}

func TestLoginsDoNotQueue(t *testing.T) {
	h := newTestServer(t, used{}, "")
	const all = 200
	statuses := make(chan int, all)
	for range all {
		go func() {
			response, err := h.Client().PostForm(h.URL+loginPath, url.Values{"password": {"guess"}})
			if err != nil {
				statuses <- -1
				return
			}
			_ = response.Body.Close() // only the status is checked
			statuses <- response.StatusCode
		}()
	}
	count := map[int]int{}
	for range all {
		count[<-statuses]++
	}
	if count[http.StatusTooManyRequests] == 0 || count[http.StatusForbidden] < loginBurst || count[-1] != 0 {
		t.Errorf("answers: %v", count)
	}
}

// A wrong number would end a session, or keep it from ending.
func TestWhoHasLostTrackSaysSo(t *testing.T) {
	h := newTestServer(t, used{err: errors.New("gone")}, "")
	if status, _ := h.get(h.browser(), activityPath); status != http.StatusServiceUnavailable {
		t.Errorf("%d", status)
	}
}

// echo is an X server that returns what it receives.
func echo(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "vnc")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return socket
}

func TestABrowserTalksToTheXServer(t *testing.T) {
	h := newTestServer(t, used{}, echo(t))
	c := h.browser()
	h.login(c, secret)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	options := &websocket.DialOptions{HTTPClient: c, Subprotocols: []string{"binary"}}
	ws, _, err := websocket.Dial(ctx, h.URL+socketPath, options)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	long := strings.Repeat("x", 1<<20)
	if err := ws.Write(ctx, websocket.MessageBinary, []byte(long)); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(long))
	if _, err := io.ReadFull(websocket.NetConn(ctx, ws, websocket.MessageBinary), got); err != nil || string(got) != long {
		t.Errorf("what came back differs: %v", err)
	}
}

// The user's browser sends the cookie with requests of another site's page.
func TestAPageOfAnotherSiteGetsNoSocket(t *testing.T) {
	h := newTestServer(t, used{}, echo(t))
	c := h.browser()
	h.login(c, secret)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, response, err := websocket.Dial(ctx, h.URL+socketPath, &websocket.DialOptions{
		HTTPClient: c, HTTPHeader: http.Header{"Origin": {"https://elsewhere.example.com"}},
	})
	if err == nil || response == nil || response.StatusCode != http.StatusForbidden {
		t.Errorf("%v, %v", response, err)
	}
}
