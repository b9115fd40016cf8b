// Package secret manages the access secrets of sessions, and resolves the Secrets that are
// sent to members with assignments: the access secret, and the Secrets of the hub's
// namespace that are labeled for distribution and named by the template. Once makes the
// Secrets of keys that the hub makes once.
//
// The content of a Secret is in no assignment until that is sent, and never in a log or
// an event. A Secret that the session does not own, or that Once has found, is never
// written.
package secret
