// Package challenge declares what answers an authority's challenges: see package lego.
package challenge

import "context"

// Provider proves the ownership of a domain.
type Provider interface {
	Present(ctx context.Context, domain, token, keyAuth string) error
	CleanUp(ctx context.Context, domain, token, keyAuth string) error
}
