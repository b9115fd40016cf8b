package login

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/oauth2-proxy/mockoidc"
)

// user is a user of an identity provider, with any claims.
type user struct {
	*mockoidc.MockUser
	claims jwt.MapClaims
}

// Claims returns the claims of the user's ID token (mockoidc.User).
func (u user) Claims(_ []string, base *mockoidc.IDTokenClaims) (jwt.Claims, error) {
	out := jwt.MapClaims{"iss": base.Issuer, "sub": base.Subject, "aud": base.Audience, "exp": base.ExpiresAt.Unix(), "iat": base.IssuedAt.Unix(), "nonce": base.Nonce}
	for name, value := range u.claims {
		out[name] = value
	}
	return out, nil
}

// idp starts an identity provider, and returns it with a console that uses it.
func idp(t *testing.T, change func(*Provider)) (*mockoidc.MockOIDC, *Provider) {
	t.Helper()
	m, err := mockoidc.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Shutdown() })
	p := &Provider{
		Claims:   Claims{IssuerURL: m.Issuer(), UsernameClaim: "name", UsernamePrefix: "-", GroupsClaim: "groups"},
		ClientID: m.ClientID, ClientSecret: m.ClientSecret, RedirectURL: "https://vdi.example.com/login/callback",
		HTTP: &http.Client{Timeout: 5 * time.Second}, Cookies: at(time.Now()),
	}
	if change != nil {
		change(p)
	}
	return m, p
}

// callback logs a user in at the provider, and returns the request that the browser then sends.
func callback(t *testing.T, m *mockoidc.MockOIDC, p *Provider, claims jwt.MapClaims) *http.Request {
	t.Helper()
	m.QueueUser(user{MockUser: mockoidc.DefaultUser(), claims: claims})
	address, cookie, err := p.Begin("/s/desktops/a")
	if err != nil {
		t.Fatal(err)
	}
	return visit(t, address, cookie)
}

// visit follows the address to the provider and back, and returns the request of the callback.
func visit(t *testing.T, address string, cookie *http.Cookie) *http.Request {
	t.Helper()
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := browser.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	r := request(cookie)
	if r.URL, err = url.Parse(response.Header.Get("Location")); err != nil || r.URL.Path != "/login/callback" {
		t.Fatalf("the provider answered %s, %s", response.Status, response.Header.Get("Location"))
	}
	return r
}

func TestLoginByOIDC(t *testing.T) {
	m, p := idp(t, nil)
	r := callback(t, m, p, jwt.MapClaims{"name": "alice", "groups": []string{"staff"}})
	got, back, spent, err := p.End(r, time.Hour)
	if err != nil || got.Name != "alice" || !cmp.Equal(got.Groups, []string{"staff"}) || back != "/s/desktops/a" {
		t.Errorf("%v goes to %q: %v", got, back, err)
	}
	if spent == nil || spent.MaxAge >= 0 || !strings.HasSuffix(spent.Name, r.URL.Query().Get("state")) {
		t.Errorf("the state is kept: %v", spent)
	}
}

// Tabs that log in at the same time do not disturb each other.
func TestTwoTabsLogIn(t *testing.T) {
	m, p := idp(t, nil)
	first := callback(t, m, p, jwt.MapClaims{"name": "alice"})
	second := callback(t, m, p, jwt.MapClaims{"name": "alice"})
	for _, r := range []*http.Request{second, first} {
		if _, _, _, err := p.End(r, time.Hour); err != nil {
			t.Error(err)
		}
	}
}

func TestALoginThatIsRefused(t *testing.T) {
	alice := jwt.MapClaims{"name": "alice"}
	for name, tc := range map[string]struct {
		claims jwt.MapClaims
		damage func(m *mockoidc.MockOIDC, p *Provider, r *http.Request)
		want   string
	}{
		"another browser": {alice, func(_ *mockoidc.MockOIDC, _ *Provider, r *http.Request) { r.Header.Del("Cookie") }, "another browser"},
		"another state": {alice, func(_ *mockoidc.MockOIDC, _ *Provider, r *http.Request) {
			query := r.URL.Query()
			query.Set("state", "another")
			r.URL.RawQuery = query.Encode()
		}, "another browser"},
		"too late": {alice, func(_ *mockoidc.MockOIDC, p *Provider, _ *http.Request) {
			p.Cookies = at(time.Now().Add(flowLifetime + time.Second))
		}, "10 minutes"},
		"the code of somebody else": {alice, func(_ *mockoidc.MockOIDC, _ *Provider, r *http.Request) {
			query := r.URL.Query()
			query.Set("code", "stolen")
			r.URL.RawQuery = query.Encode()
		}, "redeeming the code"},
		"the provider is slow": {alice, func(m *mockoidc.MockOIDC, p *Provider, _ *http.Request) {
			p.HTTP.Timeout = time.Nanosecond
		}, "redeeming the code"},
		"another nonce":           {jwt.MapClaims{"name": "alice", "nonce": "another"}, nil, "another login"},
		"another audience":        {jwt.MapClaims{"name": "alice", "aud": "another"}, nil, "audience"},
		"another issuer":          {jwt.MapClaims{"name": "alice", "iss": "https://evil.example.com"}, nil, "issue"},
		"expired an hour ago":     {jwt.MapClaims{"name": "alice", "exp": time.Now().Add(-time.Hour).Unix()}, nil, "clocks"},
		"issued in an hour":       {jwt.MapClaims{"name": "alice", "iat": time.Now().Add(time.Hour).Unix()}, nil, "clocks"},
		"a group of Kubernetes":   {jwt.MapClaims{"name": "alice", "groups": []string{"system:masters"}}, nil, "reserved"},
		"an administrator's name": {jwt.MapClaims{"name": "system:admin"}, nil, "reserved"},
	} {
		t.Run(name, func(t *testing.T) {
			m, p := idp(t, nil)
			r := callback(t, m, p, tc.claims)
			if tc.damage != nil {
				tc.damage(m, p, r)
			}
			if got, _, _, err := p.End(r, time.Hour); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v: %v; want an error with %q", got, err, tc.want)
			}
		})
	}
}

// Clocks that differ by some minutes do not matter.
func TestClocksThatDiffer(t *testing.T) {
	for name, claims := range map[string]jwt.MapClaims{
		"the provider's is late":  {"name": "alice", "exp": time.Now().Add(-4 * time.Minute).Unix()},
		"the provider's is early": {"name": "alice", "iat": time.Now().Add(4 * time.Minute).Unix()},
	} {
		m, p := idp(t, nil)
		if _, _, _, err := p.End(callback(t, m, p, claims), time.Hour); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The user cancels, or may not use the console.
func TestTheProviderRefuses(t *testing.T) {
	_, p := idp(t, nil)
	address, cookie, err := p.Begin("/")
	if err != nil {
		t.Fatal(err)
	}
	began, _ := url.Parse(address)
	r := request(cookie)
	r.URL.RawQuery = url.Values{"state": {began.Query().Get("state")}, "error": {"access_denied"}, "error_description": {"not for you"}}.Encode()
	if _, _, _, err := p.End(r, time.Hour); err == nil || !strings.Contains(err.Error(), "not for you") {
		t.Errorf("%v", err)
	}
}

// The provider may be away when the console starts, and be used once it is there.
func TestAProviderThatIsAway(t *testing.T) {
	m, p := idp(t, nil)
	issuer := p.IssuerURL
	p.IssuerURL = "http://127.0.0.1:1"
	if _, _, err := p.Begin("/"); err == nil || !strings.Contains(err.Error(), "can't be reached") {
		t.Errorf("%v", err)
	}
	p.IssuerURL = issuer
	if _, _, _, err := p.End(callback(t, m, p, jwt.MapClaims{"name": "alice"}), time.Hour); err != nil {
		t.Error(err)
	}
}
