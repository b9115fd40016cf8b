package console

import (
	"crypto/rand"
	"net"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	"github.com/oauth2-proxy/mockoidc"
)

// The client of the console at the identity provider.
const (
	clientID     = "vdi-console"
	clientSecret = "of-the-tests"
)

// provide starts the identity provider, which logs in the users that the test queues, without any page.
func provide(t *testing.T) *mockoidc.MockOIDC {
	t.Helper()
	provider, err := mockoidc.NewServer(nil)
	if err != nil {
		t.Fatal(err)
	}
	provider.ClientID, provider.ClientSecret = clientID, clientSecret
	listener, err := net.Listen("tcp", hostOf(issuer))
	if err != nil {
		t.Fatal(err)
	}
	if err := provider.Start(listener, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = provider.Shutdown() })
	return provider
}

// person returns a user of the identity provider.
func person(name string, groups ...string) *mockoidc.MockUser {
	return &mockoidc.MockUser{Subject: name, Email: name + "@example.com", EmailVerified: true, Groups: groups}
}

// unverified is a user whose email address the provider has not verified. The library's own leaves the claim out then.
type unverified struct{ *mockoidc.MockUser }

// Claims returns the claims of the user (mockoidc.User).
func (u unverified) Claims(_ []string, claims *mockoidc.IDTokenClaims) (jwt.Claims, error) {
	return struct {
		*mockoidc.IDTokenClaims
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
	}{claims, u.Email, false}, nil
}

// T2: by the identity provider to the page that a person wanted.
func TestLoginByIdentityProvider(t *testing.T) {
	provider := provide(t)
	p := open(t).tab()
	provider.QueueUser(person("alice", "staff"))
	p.visit("/new/browser")
	p.expectText("Log in with your organization")
	p.click("#oidc")
	p.expectText("Start Secure browser")
	p.expectText("alice@example.com")
	p.click("#logout")
	p.expectText("Log in with your organization")

	provider.QueueUser(unverified{person("bob")})
	p.click("#oidc")
	p.expectText("Your email address is not verified")

	if err := provider.Shutdown(); err != nil {
		t.Fatal(err)
	}
	again := open(t).tab() // the provider's page is not there either
	again.visit("/login")
	again.expectText("Log in with your organization")
	provider = provide(t)
	provider.QueueUser(person("alice"))
	again.click("#oidc")
	again.expectText("My desktops")
}

// T3: a login with too many groups is refused, and the page says why.
func TestTooManyGroups(t *testing.T) {
	provider := provide(t)
	var groups []string
	for range 400 {
		groups = append(groups, rand.Text()) // as directories do; names that are alike need less space
	}
	provider.QueueUser(person("alice", groups...))
	p := open(t).tab()
	p.visit("/login")
	p.click("#oidc")
	p.expectText("400 groups")
	p.shot("login")
	provider.QueueUser(person("alice", groups[:20]...))
	p.click("#oidc")
	p.expectText("My desktops")
}
