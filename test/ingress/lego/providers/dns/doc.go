// Package dns has no DNS provider: see package lego.
package dns

import (
	"fmt"

	"github.com/go-acme/lego/v5/challenge"
)

// NewDNSChallengeProviderByName returns an error.
func NewDNSChallengeProviderByName(name string) (challenge.Provider, error) {
	return nil, fmt.Errorf("this Traefik was built without an ACME client, and does not support DNS provider %q", name)
}
