package app

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
)

// clock is moved by the test.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

func idle(t *testing.T, h http.Handler) float64 {
	t.Helper()
	w := serve(h, http.MethodGet, ActivityPath, "")
	var answer map[string]float64
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != http.StatusOK || len(answer) != 1 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return answer["idleSeconds"]
}

func serve(h http.Handler, method, path, password string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	if password != "" {
		r.SetBasicAuth(DefaultUsername, password)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestItReportsHowLongItHasBeenIdle(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	h := New(Options{Now: c.read})
	c.now = c.now.Add(12500 * time.Millisecond)
	if got := idle(t, h); got != 12.5 {
		t.Errorf("idle for %v s since its start, want 12.5", got)
	}
	if got := idle(t, h); got != 12.5 {
		t.Errorf("the query counts as use: %v s", got)
	}
	for _, use := range []struct{ method, path string }{{http.MethodPost, "/activity"}, {http.MethodGet, "/"}} {
		c.now = c.now.Add(time.Minute)
		if code := serve(h, use.method, use.path, "").Code; code >= 300 {
			t.Fatalf("%s %s: %d", use.method, use.path, code)
		}
		if got := idle(t, h); got != 0 {
			t.Errorf("%s %s is not use: idle for %v s", use.method, use.path, got)
		}
	}
}

func TestAClockThatIsSetBackMakesNothingNegative(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	h := New(Options{Now: c.read})
	c.now = c.now.Add(-time.Hour)
	if got := idle(t, h); got != 0 {
		t.Errorf("idle for %v s", got)
	}
}

func TestThePasswordProtectsThePageAndNotTheActivityEndpoint(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	h := New(Options{Password: "open sesame", Now: c.read})
	c.now = c.now.Add(time.Minute)
	for _, wrong := range []string{"", "open", "open sesame!"} {
		for _, guarded := range []struct{ method, path string }{{http.MethodGet, "/"}, {http.MethodPost, "/activity"}} {
			if code := serve(h, guarded.method, guarded.path, wrong).Code; code != http.StatusUnauthorized {
				t.Errorf("%s %s with password %q: %d", guarded.method, guarded.path, wrong, code)
			}
		}
	}
	if got := idle(t, h); got != 60 {
		t.Errorf("a refused request uses the desktop: idle for %v s, want 60", got)
	}
	w := serve(h, http.MethodGet, "/", "open sesame")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `fetch("activity"`) {
		t.Errorf("the page: %d", w.Code)
	}
	if got := idle(t, h); got != 0 {
		t.Errorf("its user has opened it: idle for %v s", got)
	}
}

func TestWhatTheUserWritesOutlivesTheDesktop(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	home := t.TempDir()
	write := func(h http.Handler, text, password string) int {
		r := httptest.NewRequest(http.MethodPut, "/notes", strings.NewReader(text))
		r.SetBasicAuth(DefaultUsername, password)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	first := New(Options{Password: "open sesame", Home: home, Now: c.read})
	if got := serve(first, http.MethodGet, "/notes", "open sesame"); got.Code != http.StatusOK || got.Body.Len() != 0 {
		t.Errorf("of a fresh home: %d %q", got.Code, got.Body)
	}
	if code := write(first, "buy milk", "open sesame"); code != http.StatusNoContent {
		t.Fatalf("writing: %d", code)
	}
	for password, want := range map[string]int{"guess": http.StatusUnauthorized, "open sesame": http.StatusRequestEntityTooLarge} {
		if code := write(first, strings.Repeat("x", mostNotes+1), password); code != want {
			t.Errorf("too much, with password %q: %d, want %d", password, code, want)
		}
	}
	if got := serve(New(Options{Password: "another", Home: home, Now: c.read}), http.MethodGet, "/notes", "another"); got.Body.String() != "buy milk" {
		t.Errorf("the next desktop with this home has %q", got.Body)
	}
}

func TestItCountsKeys(t *testing.T) {
	server := httptest.NewServer(New(Options{Title: "<b>here</b>", Username: "kasm_user", Password: "open sesame"}))
	defer server.Close()
	config, err := websocket.NewConfig(strings.Replace(server.URL, "http", "ws", 1)+"/keys", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.DialContext(t.Context()); err == nil {
		t.Error("it counts without the password")
	}
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.SetBasicAuth("kasm_user", "open sesame")
	config.Header = http.Header{"Authorization": r.Header["Authorization"]}
	conn, err := config.DialContext(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, want := range []string{"1", "2"} {
		var got string
		if err := errors.Join(websocket.Message.Send(conn, "a"), websocket.Message.Receive(conn, &got)); err != nil || got != want {
			t.Errorf("%q, %v, not %s", got, err, want)
		}
	}
	w := httptest.NewRecorder()
	server.Config.Handler.ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), "<h1>&lt;b&gt;here&lt;/b&gt;</h1>") {
		t.Errorf("the page is %s", w.Body)
	}
}
