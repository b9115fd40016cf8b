// Package convert converts the API's assignments to wire types and back. It is pure: the
// same input gives the same output, and malformed input is an error that names the field.
//
// The hub uses AssignmentToWire and ReportFromWire, the agent AssignmentFromWire and
// ReportToWire. Both compare SpecHash to check whether a member has stored the hub's last
// order: it does not change when a spec crosses the wire or an API server.
package convert
