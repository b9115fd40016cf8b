// Package permissions compares what the roles of deploy/ allow with what their
// holders have requested of an API server, by its audit log: nothing may have been
// denied, and nothing may be allowed that is not needed.
//
// It checks pairs of verb and resource, names of resources where a rule has them,
// and where they are allowed: a permission in the whole cluster that was needed in
// the namespaces of sessions alone counts as unused.
package permissions
