// Package render says what an assignment is made of in its member: a
// PersistentVolumeClaim for the home, a Pod, a Service and an Ingress.
//
// It is the first half of the fifth stop of a session's walk: agent/session
// applies what is rendered here. The package is pure: the same assignment
// gives the same objects, always, and nothing is read or written.
//
// Invariants:
//   - Pod, Service and Ingress carry the assignment's name and are controlled
//     by it, so that Kubernetes' garbage collection removes them even if the
//     agent never comes back. The home is owned by nobody: losing an
//     assignment must never lose a home.
//   - Every object carries LabelManagedBy, which is what the agent's caches
//     select.
//   - A user's name is only ever an annotation: labels can't hold an address
//     such as jane@example.com.
//   - The Pod meets Pod Security "restricted".
package render
