// Package render renders the children of an assignment: a PersistentVolumeClaim for the
// home, a ConfigMap, a Pod, a Service, an Ingress or HTTPRoute; and the NetworkPolicy and
// PodDisruptionBudget, which the desktops of a namespace share.
//
// agent/session applies them. The package is pure: the same assignment in the same member
// always gives the same objects, and nothing is read or written.
//
// Invariants:
//   - All but the home and what is shared have the assignment's name and controller
//     reference, so that they are garbage collected even without an agent. The home has no
//     owner: it must survive the loss of its assignment.
//   - A NetworkPolicy's name has the hash of its rules, so that equal rules are one object.
//   - Every object has LabelManagedBy, which the agent's caches select.
//   - A user's name is only ever an annotation: labels can't hold an address
//     such as jane@example.com.
//   - The Pod meets Pod Security "restricted". It has no service account token, its requests
//     equal its limits, and it only refers to Secrets.
//   - By default a desktop is reachable only from the gateway, and reaches DNS and public
//     addresses, if the member's network plugin enforces NetworkPolicies.
//   - The annotations that keep websockets open and enable HTTPS are those of the Ingress
//     controller in the table profiles. Other controllers get none.
//   - A Pod with a guard or a gate requests no more than one without: the guard's resources
//     are part of the desktop's, and the gate ends before the desktop starts.
//   - Fields that change without a restart of the desktop are not in its DesktopHash.
package render
