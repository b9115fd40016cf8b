// Package session is the member's local reconciler: it makes of each
// SessionAssignment in the member's API server a home, a Pod and what stands
// around them, keeps them as they should be, and says on the assignment's
// status how they are.
//
// It is the fifth and sixth stop of a session's walk. What the children are is
// agent/render's to say, what their state means is agent/observe's; this
// package reads, writes and remembers. It knows nothing of the hub: with the
// hub away it goes on.
//
// The files are the steps: home, config, secrets, isolation, fence, time, pod, idle
// and network while an assignment lives, failure where it is given up, finalize when it
// goes, status at the end of each pass. The package children creates, repairs and
// removes the objects.
//
// Invariants:
//   - What does not belong to the assignment is never touched, whatever its
//     name: the condition says NameTaken and the Pod never mounts a claim that
//     is not its session's.
//   - A running desktop is never restarted by a change of the assignment,
//     unless the hub placed the session anew (a higher epoch) with another
//     desktop, or somebody asked for another try (a higher attempt). A changed one
//     is taken at once only where no desktop can have started: there is no Pod, it
//     has no node yet, or its kubelet reports that it can't be started.
//   - No Pod is made before its home, its config, the Secrets that the hub
//     sends and its NetworkPolicy are in place, nor while another assignment's
//     Pod has the user's home mounted.
//   - A guarded desktop of mode Fence is there only while the hub's lease counts
//     and the hub has affirmed the placement since the last lapse. One without a
//     guard is the hub's to hold, and left alone.
//   - Where the agent makes guards, the Pods of mode Hold start behind a gate. One
//     that was made without, or in another mode, is left as it is; one that waits at
//     a gate that would not be made so any more is made anew.
//   - What will not pass is given up, and only then: the failure is written
//     before the Pod is removed, and nothing is tried until the attempt is
//     raised.
//   - No Pod is ever forced away, unless an operator says so by annotation.
//     The finalizer goes only after the API server itself, not a cache, has
//     said that no Pod is left: that is what Stopped means to the hub. What
//     else is left is waited for until a deadline, and then named in an event.
//   - A home that is a user's, or is to be retained, is never deleted. A
//     session's own home goes after its Pod. A home grows, and never shrinks.
//   - A pass that finds nothing to do writes nothing. A session that starts
//     without trouble costs one write a child and one or two status writes.
package session
