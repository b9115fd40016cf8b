package login

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
)

// Provider is an identity provider of OpenID Connect.
type Provider struct {
	Claims
	// ClientID and ClientSecret of the console. A public client has no secret.
	ClientID, ClientSecret string
	// RedirectURL of the console: its address and the path of the callback.
	RedirectURL string
	// Scopes in addition to openid.
	Scopes []string
	// HTTP is the client for requests to the provider, with a timeout and the provider's authorities.
	HTTP *http.Client
	// Cookies keeps the state of a login in the browser.
	Cookies Cookies

	discovering singleflight.Group
	discovered  atomic.Pointer[oidc.Provider]
}

// flow is the state of a login that has begun. Each has its own cookie, so that the tabs of a browser can
// log in at the same time.
type flow struct {
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Return   string `json:"return"`
	Expires  int64  `json:"exp"`
}

const (
	flowCookie = "__Host-vdi-login-"
	// flowLifetime is the time that a user has to log in at the provider.
	flowLifetime = 10 * time.Minute
	// leeway is by how much the clocks of provider and console may differ.
	leeway = 5 * time.Minute
)

// ErrFlow is the error of a callback that belongs to no login of this browser.
var ErrFlow = errors.New("this login took longer than 10 minutes, or began in another browser, or your browser refuses cookies: try again")

// Begin starts a login. It returns the address at the provider to send the browser to, and the cookie with
// the state. The user is sent to the path back after the login.
func (p *Provider) Begin(back string) (address string, cookie *http.Cookie, err error) {
	provider, err := p.discover()
	if err != nil {
		return "", nil, err
	}
	state := rand.Text()
	f := flow{Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Return: back, Expires: p.Cookies.Now().Add(flowLifetime).Unix()}
	value, err := p.Cookies.seal(forFlow, f)
	if err != nil {
		return "", nil, err
	}
	config := p.config(provider)
	address = config.AuthCodeURL(state, oidc.Nonce(f.Nonce), oauth2.S256ChallengeOption(f.Verifier))
	return address, newCookie(flowCookie+state, value, flowLifetime), nil
}

// End completes a login by the request to the callback. It returns the user, the path to go on with, and
// the cookie that removes the state.
func (p *Provider) End(r *http.Request, lifetime time.Duration) (identity Identity, back string, spent *http.Cookie, err error) {
	query := r.URL.Query()
	var f flow
	name := flowCookie + query.Get("state")
	if err := p.Cookies.read(r, name, forFlow, &f); err != nil || p.Cookies.Now().Unix() >= f.Expires {
		return Identity{}, "", nil, ErrFlow
	}
	spent = newCookie(name, "", -1)
	if refused := query.Get("error"); refused != "" {
		return Identity{}, f.Return, spent, fmt.Errorf("the identity provider refused the login: %s %s", refused, query.Get("error_description"))
	}
	claims, err := p.redeem(r.Context(), query.Get("code"), f)
	if err != nil {
		return Identity{}, f.Return, spent, err
	}
	identity, err = p.identity(claims, p.Cookies.Now(), lifetime)
	return identity, f.Return, spent, err
}

// redeem exchanges a code for an ID token, and returns its verified claims.
func (p *Provider) redeem(ctx context.Context, code string, f flow) (map[string]json.RawMessage, error) {
	provider, err := p.discover()
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, p.HTTP)
	token, err := p.config(provider).Exchange(ctx, code, oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return nil, fmt.Errorf("redeeming the code of the login at the identity provider: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return nil, errors.New("the identity provider sent no ID token: it must support OpenID Connect, scope openid")
	}
	// Times are checked below, with leeway.
	verified, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: p.ClientID, SkipExpiryCheck: true}).Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("verifying the ID token of the identity provider: %w", err)
	}
	now := p.Cookies.Now()
	switch {
	case subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(f.Nonce)) != 1:
		return nil, errors.New("the ID token of the identity provider belongs to another login: try again")
	case now.After(verified.Expiry.Add(leeway)):
		return nil, fmt.Errorf("the ID token of the identity provider expired at %s: the clocks of provider and console differ by more than %s", verified.Expiry.UTC().Format(time.RFC3339), leeway)
	case verified.IssuedAt.After(now.Add(leeway)):
		return nil, fmt.Errorf("the ID token of the identity provider was issued at %s, in the future: the clocks of provider and console differ by more than %s", verified.IssuedAt.UTC().Format(time.RFC3339), leeway)
	}
	var claims map[string]json.RawMessage
	if err := verified.Claims(&claims); err != nil {
		return nil, fmt.Errorf("reading the claims of the ID token: %w", err)
	}
	return claims, nil
}

func (p *Provider) config(provider *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: p.ClientID, ClientSecret: p.ClientSecret, RedirectURL: p.RedirectURL,
		Endpoint: provider.Endpoint(), Scopes: append([]string{oidc.ScopeOpenID}, p.Scopes...),
	}
}

// discover returns the provider's endpoints. The provider need not be there before the first login.
func (p *Provider) discover() (*oidc.Provider, error) {
	if known := p.discovered.Load(); known != nil {
		return known, nil
	}
	found, err, _ := p.discovering.Do("", func() (any, error) {
		// The context is kept for later requests for the provider's keys.
		return oidc.NewProvider(oidc.ClientContext(context.Background(), p.HTTP), p.IssuerURL)
	})
	if err != nil {
		return nil, fmt.Errorf("the identity provider %s can't be reached: %w", p.IssuerURL, err)
	}
	provider := found.(*oidc.Provider)
	p.discovered.Store(provider)
	return provider, nil
}
