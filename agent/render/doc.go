// Package render says what an assignment is made of in its member: a
// PersistentVolumeClaim for the home, a ConfigMap, a Pod, a Service, an Ingress
// or HTTPRoute, a NetworkPolicy and a PodDisruptionBudget.
//
// It is the first half of the fifth stop of a session's walk: agent/session
// applies what is rendered here. The package is pure: the same assignment in
// the same member gives the same objects, always, and nothing is read or
// written.
//
// Invariants:
//   - All but the home carry the assignment's name and are controlled by it, so
//     that Kubernetes' garbage collection removes them even if the agent never
//     comes back. The home is owned by nobody: losing an assignment must never
//     lose a home.
//   - Every object carries LabelManagedBy, which is what the agent's caches
//     select.
//   - A user's name is only ever an annotation: labels can't hold an address
//     such as jane@example.com.
//   - The Pod meets Pod Security "restricted". It has no token of the cluster's,
//     its requests equal its limits, and what it takes from Secrets is named, and
//     never in clear.
//   - A desktop is reached from the gateway alone and reaches DNS and the world,
//     unless its template says otherwise. Nothing here enforces it: the member's
//     network plugin does, if it heeds NetworkPolicies.
//   - An Ingress controller is told in its own annotations what keeps websockets
//     open and how HTTPS is spoken, by the table profiles, and one that is not in
//     it is told nothing.
//   - A Pod with a guard or a gate asks for no more than one without: the guard's
//     share is taken out of the desktop's, and the gate ends before it begins.
//   - What changes of a desktop that runs, without a restart, is not in its
//     DesktopHash.
package render
