// Package http01 declares the names of the HTTP challenge: see package lego.
package http01

import "time"

// PathPrefix is the prefix of the paths that answer the challenge, by RFC 8555.
const PathPrefix = "/.well-known/acme-challenge/"

// SetDelay returns an option without effect.
func SetDelay(time.Duration) any { return nil }
