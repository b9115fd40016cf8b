// Package console serves the pages on which people get their desktops: logins, the list of a user's desktops,
// the start of another one, and the page of each. It runs as a Deployment of its own, in any number of
// replicas, none of which leads.
//
// It reads from a cache of its own, and shows a user the user's own sessions, and others only if the API
// server's authorization admits that. It writes as the user (see package impersonation), so that the rules of
// the API server apply as they do to kubectl.
//
// Invariants: GET changes nothing; a request that changes something comes from a page of the console; a page
// names no session that its user may not see; the console has no Secret but that of its keys.
package console
