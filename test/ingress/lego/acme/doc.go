// Package acme has the types of an account: see package lego.
package acme

// Account of an authority.
type Account struct{}

// ExtendedAccount is one, and where it is stored.
type ExtendedAccount struct {
	Account
	Location string
}
