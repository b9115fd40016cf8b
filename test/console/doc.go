// Package console tests the console in a real browser, against a fleet of real control planes that bin/fleet runs:
// `make console-test`. It is a module of its own, since the browser's library is needed nowhere else.
//
// Every page fails a test by a script error, a violation of its Content-Security-Policy, or a request to another host.
// Screenshots of what the tests have seen are in dist/console.
package console
