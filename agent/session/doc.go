// Package session is the member's local reconciler: it creates the home, the Pod and the
// other children of each SessionAssignment in the member's API server, repairs them, and
// reports their state in the assignment's status.
//
// agent/render describes the children, agent/observe derives conditions from their state,
// and agent/session/children creates, repairs and removes them; this package decides
// when. It does not depend on the hub: while the hub is away it goes on.
//
// The files are the steps: home, config, secrets, isolation, fence, time, pod, idle and
// endpoint while an assignment exists, finalize when it is deleted, status at the end of
// each pass. pod_replace and pod_stop belong to pod, status_rate and trace to status.
//
// Invariants:
//   - What the assignment does not own is never touched, whatever its name: the reason
//     is NameTaken, and the Pod never mounts a claim that is not its session's.
//   - A running desktop is never restarted by a change of the assignment, unless the hub
//     rescheduled the session (a higher epoch) with another desktop, or spec.attempt was
//     raised. A change is applied at once only where no desktop can have started: there
//     is no Pod, it has no node yet, or its kubelet reports that it can't be started.
//   - No Pod is created before its home, its config, the Secrets that the hub sends and
//     its NetworkPolicy are in place, nor while another assignment's Pod has the user's
//     home mounted.
//   - A guarded desktop of mode Fence runs only while the hub's lease is valid and the
//     hub has affirmed the placement since the last lapse. The hub holds one without a
//     guard, and the agent does not touch it.
//   - Where the agent creates guards, the Pods of mode Hold start behind a gate. One
//     that was created without, or in another mode, is kept; one that waits at a gate
//     that would be created differently now is replaced.
//   - An attempt fails permanently only for a problem that no retry cures: the failure
//     is written before the Pod is removed, and nothing is tried until spec.attempt is
//     raised.
//   - No Pod is ever deleted by force, unless an operator requests that by annotation.
//     The finalizer is removed only after the API server itself, not a cache, has no Pod
//     left: that is what Stopped means to the hub. Other children are waited for until a
//     deadline, and then named in an event.
//   - A home that is a user's, or is to be retained, is never deleted. A session's own
//     home is deleted after its Pod. A home grows, and never shrinks.
//   - A pass without a difference writes nothing. A session that starts without a
//     problem costs one write a child and one or two status writes.
package session
