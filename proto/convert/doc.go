// Package convert turns the API's assignments into the wire's and back. It is
// pure: the same input gives the same output, and what can't be read is an
// error that names the field.
//
// The hub uses AssignmentToWire and ReportFromWire, the agent
// AssignmentFromWire and ReportToWire. SpecHash is how both know whether a
// member holds what the hub last said: it does not change when a spec crosses
// the wire or an API server.
package convert
