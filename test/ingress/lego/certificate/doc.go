// Package certificate defines requests to an authority, and its answer: see package lego.
package certificate

import "github.com/go-acme/lego/v5/certcrypto"

// ObtainRequest requests a certificate.
type ObtainRequest struct {
	Domains, EmailAddresses  []string
	Bundle, EnableCommonName bool
	Profile, PreferredChain  string
	KeyType                  certcrypto.KeyType
}

// RenewOptions are the options of a renewal.
type RenewOptions struct {
	EmailAddresses           []string
	Bundle, EnableCommonName bool
	Profile, PreferredChain  string
}

// Resource is a certificate with its private key.
type Resource struct {
	ID                      string
	Domains                 []string
	PrivateKey, Certificate []byte
}
