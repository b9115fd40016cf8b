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
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

const secret = "correct-horse-battery-staple"

// used is a desktop that was used when the test says.
type used struct {
	ago time.Duration
	err error
}

func (u used) idle() (time.Duration, error) { return u.ago, u.err }

// house is a desktop's server, without an X server.
type house struct {
	t *testing.T
	*httptest.Server
	file string
}

func newHouse(t *testing.T, u used, socket string) *house {
	t.Helper()
	page := t.TempDir()
	if err := os.WriteFile(filepath.Join(page, "vnc.html"), []byte("noVNC"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, file: filepath.Join(t.TempDir(), "password")}
	h.write(secret + "\n")
	h.Server = httptest.NewServer(newHandler(t.Context(), page, socket, newDoor(h.file), u))
	t.Cleanup(h.Close)
	return h
}

func (h *house) write(password string) {
	h.t.Helper()
	if err := os.WriteFile(h.file, []byte(password), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// visitor is a browser: it keeps cookies, and follows where it is sent.
func (h *house) visitor() *http.Client {
	h.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return &http.Client{Jar: jar}
}

func (h *house) get(c *http.Client, path string) (int, string) {
	h.t.Helper()
	return h.read(c.Get(h.URL + path))
}

func (h *house) login(c *http.Client, password string) (int, string) {
	h.t.Helper()
	return h.read(c.PostForm(h.URL+loginPath, url.Values{"password": {password}}))
}

func (h *house) read(r *http.Response, err error) (int, string) {
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
	h := newHouse(t, used{}, "")
	c := h.visitor()
	if _, body := h.get(c, "/"); !strings.Contains(body, `type="password"`) {
		t.Fatalf("a stranger is shown %q", body)
	}
	if status, body := h.login(c, secret); status != http.StatusOK || body != "noVNC" {
		t.Fatalf("after the login: %d %q", status, body)
	}
	if status, _ := h.get(c, "/vnc.html"); status != http.StatusOK {
		t.Errorf("the cookie is not heeded: %d", status)
	}
}

func TestNobodyElseGetsIn(t *testing.T) {
	h := newHouse(t, used{}, "")
	for _, guess := range []string{"", "wrong", secret[:8], secret + "x", strings.ToUpper(secret)} {
		c := h.visitor()
		if status, body := h.login(c, guess); status != http.StatusForbidden || !strings.Contains(body, "role=\"alert\"") {
			t.Errorf("%q: %d", guess, status)
		}
		if _, body := h.get(c, "/vnc.html"); body == "noVNC" {
			t.Errorf("%q lets in", guess)
		}
	}
	c := h.visitor()
	for _, path := range []string{socketPath, "/core/rfb.js", "/app/"} {
		if status, _ := h.get(c, path); status != http.StatusUnauthorized {
			t.Errorf("%s: %d for a stranger", path, status)
		}
	}
}

// The agent puts a new password into the file, and its user out who had the old one.
func TestAPasswordThatChangesShutsOutWhoCameWithTheOldOne(t *testing.T) {
	h := newHouse(t, used{}, "")
	c := h.visitor()
	h.login(c, secret)
	h.write("another")
	if _, body := h.get(c, "/vnc.html"); body == "noVNC" {
		t.Error("the old cookie lets in")
	}
	if _, body := h.login(c, "another"); body != "noVNC" {
		t.Error("the new password does not")
	}
	h.write("")
	if status, _ := h.login(c, ""); status == http.StatusOK {
		t.Error("an empty file lets everybody in")
	}
}

func TestEverybodyMayAskWhetherItIsUsed(t *testing.T) {
	h := newHouse(t, used{ago: 12500 * time.Millisecond}, "")
	status, body := h.get(h.visitor(), activityPath)
	var answer map[string]float64
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("%d %q: %v", status, body, err)
	}
	if len(answer) != 1 || answer["idleSeconds"] != 12.5 {
		t.Errorf("%v", answer)
	}
}

// A number that was made up would end a session, or never let it end.
func TestWhoHasLostTrackSaysSo(t *testing.T) {
	h := newHouse(t, used{err: errors.New("gone")}, "")
	if status, _ := h.get(h.visitor(), activityPath); status != http.StatusServiceUnavailable {
		t.Errorf("%d", status)
	}
}

// echo is an X server that says what it hears.
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
	h := newHouse(t, used{}, echo(t))
	c := h.visitor()
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

// Another site's page would have the user's browser send the cookie along.
func TestAPageOfAnotherSiteGetsNoSocket(t *testing.T) {
	h := newHouse(t, used{}, echo(t))
	c := h.visitor()
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
