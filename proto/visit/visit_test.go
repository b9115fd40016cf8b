package visit

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"
	"pgregory.net/rapid"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// pair returns a key pair, and the public keys of a door that has it.
func pair(t testing.TB) (ed25519.PrivateKey, Keys) {
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return private, Keys{"a": public}
}

// pass returns a pass for a browser with the nonce "nonce".
func pass() Pass {
	return Pass{SessionUID: "uid", Epoch: 3, User: "alice", Challenge: Challenge("nonce"), IssuedAt: now.Unix(), Expires: now.Add(time.Hour).Unix()}
}

func TestAPassOpensOneSessionForOneBrowser(t *testing.T) {
	private, keys := pair(t)
	token, err := Sign(pass(), "a", private)
	if err != nil {
		t.Fatal(err)
	}
	if len(token) > 500 {
		t.Errorf("a pass has %d bytes", len(token))
	}
	got, err := keys.Verify(token, "nonce", now)
	if err != nil || got != pass() {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := errors.Join(got.Opens("uid", 3), got.MayEnter(now.Add(EnterWithin))); err != nil {
		t.Error(err)
	}
	_, others := pair(t)
	for name, tc := range map[string]struct {
		keys  Keys
		token string
		nonce string
		at    time.Time
		want  error
	}{
		"another browser":       {keys, token, "another", now, ErrOtherBrowser},
		"a browser without one": {keys, token, "", now, ErrOtherBrowser},
		"after its end":         {keys, token, "nonce", now.Add(time.Hour), ErrExpired},
		"before its issue":      {keys, token, "nonce", now.Add(-time.Minute), ErrExpired},
		"another key":           {others, token, "nonce", now, ErrInvalid},
		"a key that is gone":    {Keys{}, token, "nonce", now, ErrInvalid},
		"nothing":               {keys, "", "nonce", now, ErrInvalid},
		"too much":              {keys, strings.Repeat("a", 1<<20), "nonce", now, ErrInvalid},
	} {
		if _, err := tc.keys.Verify(tc.token, tc.nonce, tc.at); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{"another session": got.Opens("other", 3), "after a failover": got.Opens("uid", 4)} {
		if !errors.Is(err, ErrOtherSession) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := got.MayEnter(now.Add(time.Minute)); !errors.Is(err, ErrExpired) {
		t.Errorf("a minute after its issue: %v", err)
	}
}

// No other signature algorithm is accepted: not even the hash of the public key, which is no secret.
func TestAnotherAlgorithm(t *testing.T) {
	_, keys := pair(t)
	claims, _ := json.Marshal(pass())
	encode := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	for _, header := range []string{`{"alg":"none","kid":"a"}`, `{"alg":"HS256","kid":"a"}`} {
		token := encode(header) + "." + encode(string(claims)) + "."
		if _, err := keys.Verify(token, "nonce", now); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", header, err)
		}
	}
}

// No change of a signed pass verifies.
func TestNoMutationVerifies(t *testing.T) {
	private, keys := pair(t)
	token, err := Sign(pass(), "a", private)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		mutated := []byte(token)
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			i := rapid.IntRange(0, len(mutated)-1).Draw(t, "at")
			mutated[i] = rapid.SampledFrom([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")).Draw(t, "to")
		}
		got, err := keys.Verify(string(mutated), "nonce", now)
		if err == nil && got != pass() {
			t.Fatalf("%s is the pass %+v", mutated, got)
		}
	})
}

func FuzzVerify(f *testing.F) {
	private, keys := pair(f)
	token, _ := Sign(pass(), "a", private)
	f.Add(token)
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		if got, err := keys.Verify(token, "nonce", now); err == nil && got != pass() {
			t.Fatalf("%q is the pass %+v", token, got)
		}
	})
}

func TestCookiesAreForTheHostAlone(t *testing.T) {
	for crossSite, want := range map[bool]http.SameSite{false: http.SameSiteLaxMode, true: http.SameSiteNoneMode} {
		c := Cookies{CrossSite: crossSite}
		for _, cookie := range append(c.Entered("token", "nonce", pass(), now), c.NewNonce()) {
			if !cookie.Secure || !cookie.HttpOnly || cookie.Path != "/" || cookie.Domain != "" || cookie.SameSite != want || cookie.Partitioned != crossSite {
				t.Errorf("%s", cookie)
			}
		}
	}
}

func TestDesktopsReadNoCookieOfADoor(t *testing.T) {
	for in, want := range map[string]string{
		"__Host-vdi-nonce=a; theme=dark; __Host-vdi-pass=b": "theme=dark",
		"__Host-vdi-pass=b":       "",
		"theme=dark; lang=en":     "theme=dark; lang=en",
		" __Host-vdi-login=x;a=b": "a=b",
	} {
		h := http.Header{"Cookie": {in}}
		if Strip(h); h.Get("Cookie") != want {
			t.Errorf("%q becomes %q", in, h.Get("Cookie"))
		}
	}
}

// A second cookie of the same name is of an attacker: neither is used.
func TestTwoCookiesOfAName(t *testing.T) {
	r := httptest.NewRequest(http.MethodGet, "https://a.example.com/", nil)
	r.Header.Set("Cookie", NonceCookie+"=one; "+NonceCookie+"=two")
	if got := Value(r, NonceCookie); got != "" {
		t.Errorf("the nonce is %q", got)
	}
}

func TestHello(t *testing.T) {
	server := httptest.NewTLSServer(Hello("https://vdi.example.com", Cookies{}))
	defer server.Close()
	jar, _ := cookiejar.New(nil)
	browser := server.Client()
	browser.Jar = jar
	get := func(path string) (*http.Response, string) {
		t.Helper()
		r, _ := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL+path, nil)
		response, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response, string(body)
	}
	if _, body := get(CheckPath); strings.TrimSpace(body) != `{"challenge":""}` {
		t.Errorf("without a nonce: %s", body)
	}
	response, page := get(HelloPath)
	if csp := response.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors https://vdi.example.com") || strings.Contains(csp, "unsafe") {
		t.Errorf("the policy is %s", csp)
	}
	if !strings.Contains(page, `data-console="https://vdi.example.com"`) {
		t.Errorf("the page is %s", page)
	}
	u, _ := url.Parse(server.URL)
	nonce := ""
	for _, c := range jar.Cookies(u) {
		if c.Name == NonceCookie {
			nonce = c.Value
		}
	}
	if _, body := get(CheckPath); nonce == "" || strings.TrimSpace(body) != `{"challenge":"`+Challenge(nonce)+`"}` {
		t.Errorf("with nonce %q: %s", nonce, body)
	}
}

func TestEcho(t *testing.T) {
	server := httptest.NewServer(Hello("https://vdi.example.com", Cookies{}))
	defer server.Close()
	address := strings.Replace(server.URL, "http", "ws", 1) + EchoPath
	conn, err := websocket.Dial(address, "", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var got string
	if err := errors.Join(websocket.Message.Send(conn, "vdi"), websocket.Message.Receive(conn, &got)); err != nil || got != "vdi" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := websocket.Dial(address, "", "https://evil.example.com"); err == nil {
		t.Error("a page of another host opens a WebSocket")
	}
}
