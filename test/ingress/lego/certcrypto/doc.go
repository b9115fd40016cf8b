// Package certcrypto names the types of keys: see package lego.
package certcrypto

// KeyType is the type of a certificate's key.
type KeyType string

// The key types that a configuration may request.
const (
	EC256   KeyType = "EC256"
	EC384   KeyType = "EC384"
	RSA2048 KeyType = "RSA2048"
	RSA4096 KeyType = "RSA4096"
	RSA8192 KeyType = "RSA8192"
)
