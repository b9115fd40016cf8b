// Package api tests the user's contract on a real API server: what the CRDs
// in the charts refuse and the words they do it in, what can be selected by
// field, what kubectl prints, that the samples are admitted, and whom the
// policies of the hub let ask for a session.
//
// testdata/messages.txt is what a user is told for each rule. A rule without
// a case here fails the suite.
package api
