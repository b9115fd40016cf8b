// Package tlsalpn01 has the names of the challenge by TLS: see package lego.
package tlsalpn01

import (
	"errors"
	"time"
)

// ACMETLS1Protocol is the challenge's protocol, by RFC 8737. Traefik recognizes by it
// which handshakes are none of a route's.
const ACMETLS1Protocol = "acme-tls/1"

// ChallengeBlocks fails.
func ChallengeBlocks(string, string) (certificate, key []byte, err error) {
	return nil, nil, errors.New("this Traefik was built without an ACME client")
}

// SetDelay is no option.
func SetDelay(time.Duration) any { return nil }
