// Package keys keeps the keys of the console in a Secret that its replicas share, and rotates them weekly.
// To delete the Secret logs everybody out.
//
// Invariants: a key is used to encrypt only once every replica has had an hour to read it, unless it is
// the first; a key is accepted for a day after its successor is in use, which is longer than any login; a
// Secret that cannot be read is never written over.
package keys
