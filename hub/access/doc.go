// Package access lets users read the passwords of their own sessions.
//
// The hub keeps the access Secret of each session in the session's namespace, where
// one user's Secrets lie beside another's. For each user and namespace it keeps one
// Role, which allows `get` on the user's own access Secrets by name, and one
// RoleBinding of that Role to the user. Both have the same name, derived from the
// user's, and the label v1alpha1.LabelUserRole: objects without it are never changed
// or deleted.
//
// A session costs at most one write: the update that adds its Secret to its user's
// Role, which also drops the names of ended sessions. A user's first session costs two,
// the Role and the RoleBinding; both are kept for a week without sessions.
//
// Desired is the pure decision. The Reconciler compares it with what is stored. It
// starts from all sessions and all labeled Roles, so that leftovers of an earlier leader are
// removed. No session waits for it.
package access
