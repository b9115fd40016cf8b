// Package observe reads an assignment's children, as its member has them, into
// the status that the agent reports: the conditions HomeReady, PodReady and
// EndpointReady, one sentence on what is waited for, when the desktop was
// first ready, and on which node.
//
// It is the sixth stop of a session's walk. The package is pure: what it needs
// of the clock is a parameter, and the children are given.
//
// Invariants:
//   - Each of the three conditions is always there, with a reason of
//     api/v1alpha1 and a message that says what is waited for, and, where
//     somebody can help, what would.
//   - The same children and the same status before give the same status, so a
//     reconcile that finds nothing new writes nothing.
//   - A condition's transition time moves only when its status does.
package observe
