// Package keys keeps the keys of the console in a Secret that its replicas share, and rotates them weekly: those that
// logins are encrypted with, and those that passes to desktops are signed with (package proto/visit), whose public
// parts the hub sends to the doors of members. To delete the Secret logs out all users, and ends all passes.
//
// Invariants: a key is used only once every replica and every door has had an hour to read it, unless it is
// the first; a key is accepted for a day after its successor is in use, which is longer than any login; a
// Secret that cannot be read is never written over.
package keys
