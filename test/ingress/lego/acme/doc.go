// Package acme defines the types of an account: see package lego.
package acme

// Account is an account with a certificate authority.
type Account struct{}

// ExtendedAccount is an Account with the URL under which the authority stores it.
type ExtendedAccount struct {
	Account
	Location string
}
