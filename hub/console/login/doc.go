// Package login determines who a browser's user is: by OpenID Connect (authorization code flow with
// PKCE), or by a file of users for trials. It keeps the answer in a cookie that is encrypted and
// authenticated with a key of the console, so that any replica can read it and none stores a session.
//
// Invariants: no identity whose name or groups begin with "system:" is ever accepted, whatever an
// identity provider or a file states; no token of an identity provider is kept; a password is compared
// with a hash of it, for users that exist and for those that don't.
package login
