// Package restriction checks templates (agent/capacity) and orders (agent/assignment) against
// the settings of the member's administrator: which hosts, images, networks, classes and
// nodes desktops may use. It is pure.
//
// Invariants:
//   - By default everything is allowed, except nodes of the control plane, and link-local
//     addresses, where clouds serve the credentials of their nodes.
//   - Values that can't be read are not allowed.
//   - A violation has the cause and the remedy.
package restriction
