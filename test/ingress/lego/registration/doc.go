// Package registration requests an account: see package lego.
package registration

// RegisterOptions without a binding.
type RegisterOptions struct{ TermsOfServiceAgreed bool }

// RegisterEABOptions with the binding to an account elsewhere.
type RegisterEABOptions struct {
	TermsOfServiceAgreed bool
	Kid, HmacEncoded     string
}
