// Package session is the member's local reconciler: it makes of each
// SessionAssignment in the member's API server a home, a Pod, a Service and an
// Ingress, keeps them as they should be, and says on the assignment's status
// how they are.
//
// It is the fifth and sixth stop of a session's walk. What the children are is
// agent/render's to say, what their state means is agent/observe's; this
// package reads, writes and remembers. It knows nothing of the hub: with the
// hub away it goes on.
//
// The files are the steps: home, pod and network while an assignment lives,
// finalize when it goes, status at the end of each pass.
//
// Invariants:
//   - What does not belong to the assignment is never touched, whatever its
//     name: the condition says NameTaken and the Pod never mounts a claim that
//     is not its session's.
//   - A running desktop is never restarted by a change of the assignment,
//     unless the hub placed the session anew (a higher epoch) with another
//     desktop. Where no desktop runs, a changed one is taken at once.
//   - No Pod is ever forced away. The finalizer goes only after the API
//     server itself, not a cache, has said that no Pod is left: that is what
//     Stopped means to the hub.
//   - A home that is a user's is never deleted. A session's own home goes
//     after its Pod.
//   - A pass that finds nothing to do writes nothing. A session that starts
//     without trouble costs one write a child and one or two status writes.
package session
