// Package http01 has the names of the challenge by HTTP: see package lego.
package http01

import "time"

// PathPrefix of the challenge's answers, by RFC 8555.
const PathPrefix = "/.well-known/acme-challenge/"

// SetDelay is no option.
func SetDelay(time.Duration) any { return nil }
