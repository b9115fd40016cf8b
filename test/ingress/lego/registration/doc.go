// Package registration defines the options of a request for an account: see package lego.
package registration

// RegisterOptions are the options of a registration without an external account.
type RegisterOptions struct{ TermsOfServiceAgreed bool }

// RegisterEABOptions are the options of a registration that is bound to an external account.
type RegisterEABOptions struct {
	TermsOfServiceAgreed bool
	Kid, HmacEncoded     string
}
