// Package api tests the user's contract on a real API server: what the CRDs
// in the charts refuse and with which messages, what can be selected by
// field, what kubectl prints, that the samples are admitted, and what the
// policies of the hub allow for a session.
//
// testdata/messages.txt is the message for each rule. A rule without
// a case here fails the suite.
package api
