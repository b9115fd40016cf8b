// Package challenge is what answers an authority: see package lego.
package challenge

import "context"

// Provider shows that a domain is its owner's.
type Provider interface {
	Present(ctx context.Context, domain, token, keyAuth string) error
	CleanUp(ctx context.Context, domain, token, keyAuth string) error
}
