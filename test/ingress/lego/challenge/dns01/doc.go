// Package dns01 declares the names of the DNS challenge. Only UnFqdn has an effect: see
// package lego.
package dns01

import (
	"strings"
	"time"
)

// Options are the options of a Client.
type Options struct{ RecursiveNameservers []string }

// Client is never called.
type Client struct{}

// NewClient ignores its options.
func NewClient(*Options) *Client { return &Client{} }

// SetDefaultClient ignores its argument.
func SetDefaultClient(*Client) {}

// CondOptions returns an option without effect.
func CondOptions(bool, ...any) any { return nil }

// DisableAuthoritativeNssPropagationRequirement returns an option without effect.
func DisableAuthoritativeNssPropagationRequirement() any { return nil }

// DisableRecursiveNSsPropagationRequirement returns an option without effect.
func DisableRecursiveNSsPropagationRequirement() any { return nil }

// PropagationWait returns an option without effect.
func PropagationWait(time.Duration, bool) any { return nil }

// UnFqdn removes the dot at the end of a domain's name. Traefik calls it for every host,
// with ACME or without.
func UnFqdn(name string) string { return strings.TrimSuffix(name, ".") }
