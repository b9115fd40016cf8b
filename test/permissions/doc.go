// Package permissions compares what the roles of deploy/ allow with what their holders have
// requested of an API server, by its audit log: no request may have been denied, and no
// permission may be unused.
//
// It checks pairs of verb and resource, names of resources where a rule has them, and where
// they are allowed: a permission in the whole cluster that was needed only in the namespaces
// of sessions counts as unused.
package permissions
