// Package api tests the user's contract on a real API server: what the CRDs in the charts
// reject and with which messages, field selectors, what kubectl prints, that the samples are
// admitted, and what the policies of the hub allow for a session.
//
// testdata/messages.txt has the message of each rule. A rule without a case here fails the
// suite.
package api
