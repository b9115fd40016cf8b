// Package impersonation acts on the hub's API server as the users of the console, and determines what they
// may do. The API server evaluates each write with the user's rights and records both in its audit log.
//
// Invariants: a request without a user in its context is refused here, and never sent with the rights
// of the console; and the console acts as users only while the API server was seen to constrain that
// (see Permitted).
package impersonation
