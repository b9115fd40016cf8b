// Package restriction judges what the hub orders by the settings of the member's
// administrator: which hosts, images, networks, classes and nodes desktops may have.
// It is pure: agent/capacity asks it about templates, agent/assignment about orders.
//
// Invariants:
//   - A restriction that is not set allows everything, apart from what is denied by
//     default: nodes of the control plane, and link-local addresses, where clouds
//     serve the credentials of their nodes.
//   - What can't be read is not allowed.
//   - A violation names its cause and who can remedy it how.
package restriction
