// Package render renders the children of an assignment: a PersistentVolumeClaim for the
// home, a ConfigMap, a Pod, a Service, an Ingress or HTTPRoute, a NetworkPolicy and a
// PodDisruptionBudget.
//
// agent/session applies them. The package is pure: the same assignment in the same member
// always gives the same objects, and nothing is read or written.
//
// Invariants:
//   - All but the home carry the assignment's name and are controlled by it, so
//     that Kubernetes' garbage collection removes them even if the agent never
//     returns. The home has no owner: the loss of an assignment must never lose a home.
//   - Every object carries LabelManagedBy, which is what the agent's caches
//     select.
//   - A user's name is only ever an annotation: labels can't hold an address
//     such as jane@example.com.
//   - The Pod meets Pod Security "restricted". It has no token of the cluster's,
//     its requests equal its limits, and what it takes from Secrets is named, and
//     never in clear.
//   - A desktop is reached from the gateway alone and reaches DNS and public addresses,
//     unless its template says otherwise. Nothing here enforces it: the member's
//     network plugin does, if it heeds NetworkPolicies.
//   - The annotations that keep websockets open and enable HTTPS are those of the
//     Ingress controller in the table profiles. One that is not in it gets none.
//   - A Pod with a guard or a gate asks for no more than one without: the guard's
//     share is taken out of the desktop's, and the gate ends before it begins.
//   - What changes of a desktop that runs, without a restart, is not in its
//     DesktopHash.
package render
