// Package session is the member's local reconciler: it creates the home, the Pod and the
// other children of each SessionAssignment in the member's API server, repairs them, and
// reports their state in the assignment's status.
//
// agent/render describes the children, agent/observe derives conditions from their state,
// and agent/session/children creates, repairs and removes them; this package decides
// when. It does not depend on the hub.
//
// The files are the steps: home, config, secrets, fence, timeout, isolation, pod, idle and
// endpoint while an assignment exists, finalize when it is deleted, status at the end of
// each pass. home_mount, pod_replace and pod_stop belong to pod, status_rate and trace to status.
//
// Invariants:
//   - An object that the assignment does not own is never changed (reason NameTaken), and
//     the Pod never mounts a claim that is not its session's.
//   - A running desktop is never restarted by a change of the assignment, unless the hub
//     rescheduled the session (a higher epoch) with another desktop, or spec.attempt was
//     raised. A change is applied at once only if no desktop can have started: there is
//     no Pod, it has no node, or its kubelet reports that it can't be started.
//   - No Pod is created before its home, its config, the Secrets that the hub sends and
//     its NetworkPolicy are in place, nor while another assignment's Pod has the user's
//     home mounted.
//   - A guarded desktop of mode Fence runs only while the hub's lease is valid and the
//     hub has affirmed the placement since the last lapse. One without a guard is treated
//     as mode Hold.
//   - If the agent creates guards, the Pods of mode Hold start behind a gate. A Pod that was
//     created without, or in another mode, is kept; one that waits at an outdated gate is
//     replaced.
//   - An attempt fails permanently only for a problem that no retry cures: the failure
//     is written before the Pod is removed, and nothing is retried until spec.attempt is
//     raised.
//   - No Pod is ever deleted by force, unless an operator requests that by annotation.
//     The finalizer is removed only after the API server itself, not a cache, has no Pod
//     left: then the hub receives Stopped. Other children are waited for until a deadline,
//     and then named in an event.
//   - A home that is a user's, or is to be retained, is never deleted. A session's own
//     home is deleted after its Pod. A home grows, and never shrinks.
//   - A pass without a change writes nothing. The start of a session costs one write per
//     child and one or two status writes.
package session
