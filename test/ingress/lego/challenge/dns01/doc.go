// Package dns01 has the names of the challenge by DNS, and none of its deeds but
// one: see package lego.
package dns01

import (
	"strings"
	"time"
)

// Options of a client.
type Options struct{ RecursiveNameservers []string }

// Client that is never called.
type Client struct{}

// NewClient of whatever options.
func NewClient(*Options) *Client { return &Client{} }

// SetDefaultClient keeps nothing.
func SetDefaultClient(*Client) {}

// CondOptions is no option.
func CondOptions(bool, ...any) any { return nil }

// DisableAuthoritativeNssPropagationRequirement is no option.
func DisableAuthoritativeNssPropagationRequirement() any { return nil }

// DisableRecursiveNSsPropagationRequirement is no option.
func DisableRecursiveNSsPropagationRequirement() any { return nil }

// PropagationWait is no option.
func PropagationWait(time.Duration, bool) any { return nil }

// UnFqdn is a domain's name without the dot at its end. Traefik requires it for
// every host, with ACME or without.
func UnFqdn(name string) string { return strings.TrimSuffix(name, ".") }
