// Package tlsalpn01 declares the names of the TLS challenge: see package lego.
package tlsalpn01

import (
	"errors"
	"time"
)

// ACMETLS1Protocol is the challenge's ALPN protocol, by RFC 8737. Traefik uses it to recognize
// handshakes that belong to no route.
const ACMETLS1Protocol = "acme-tls/1"

// ChallengeBlocks returns an error.
func ChallengeBlocks(string, string) (certificate, key []byte, err error) {
	return nil, nil, errors.New("this Traefik was built without an ACME client")
}

// SetDelay returns an option without effect.
func SetDelay(time.Duration) any { return nil }
