// Package guard keeps desktops from running twice where only the kubelet is sure to
// be alive. It stops a fenced one when the hub's lease is over and nobody else may
// be there to do so: the agent dead, the member's API server down. And it keeps a
// held one from being started by the kubelet alone, as when power returns to a
// member that an operator has declared fenced. It is both ends of a small
// conversation on the member's own network:
//
//   - The guard is a sidecar of the desktop's Pod, the agent's binary with the
//     sub-command guard. It asks the agent every few seconds how long the desktop
//     may go on, and serves the probe by which the kubelet keeps the desktop: when
//     the lease is over the probe fails, and the kubelet, which needs nobody for
//     that, ends the desktop. machine.go is pure, Guard the I/O around it.
//   - The Gate is an init container before a desktop of mode Hold, the same binary
//     with the sub-command gate. It asks until the agent gives leave, and ends. A
//     kubelet runs it again when it makes the Pod's sandbox anew, after a power cut
//     or a node's reboot, and not when the desktop alone has ended.
//   - The Endpoint is the agent's: it answers guards from agent/fence and the
//     assignments, and gates from what this process of the agent knows of them.
//
// Invariants:
//   - A gate opens for a desktop of mode Hold only where this process of the agent
//     knows that the hub stands by the placement: the hub ordered that epoch since
//     the process began, or has affirmed it by a number that this process was the
//     first to ask with (status.lapse), which the hub does under the lock by which it
//     would place the session anew. A desktop that runs never waits, nor does one
//     whose container ends; but after a power cut, and in each new sandbox once the
//     agent has begun anew, the desktop waits for the hub.
//   - Nothing but leave ends a gate well, and what a guard is told opens none.
//   - What is left counts from when the guard asked, in CLOCK_BOOTTIME.
//   - An answer counts only if the agent has signed it, for this assignment and
//     this very question. Guard and gate are given the public half of a key whose other
//     half is in a Secret of the agent's namespace alone: there is nothing secret
//     in the Pod.
//   - A desktop does not start before its guard has a lease, and one whose lease
//     was over does not go on, whatever the agent says later: a new Pod does.
//   - Guards hold against partitions and crashes, not against hostile workloads: a
//     desktop shares its guard's network, and one that takes its guard's port answers
//     the kubelet itself. That harms only its own user, whose session may then run
//     twice.
//   - No address keeps others from answers: connections are limited by address and in
//     total, both to the agent and to a guard, and those beyond are closed at once.
//   - A desktop that has ended is not started again by the kubelet: the agent
//     makes a new Pod, if the lease allows it.
package guard
