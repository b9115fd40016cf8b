// Package guard prevents desktops from running twice where only the kubelet is certain to
// be alive. It stops a fenced one when the hub's lease is over and nothing else may be there
// to do so: the agent dead, the member's API server down. And it prevents the kubelet from
// starting a held one on its own, as when power returns to a member that an operator has
// declared fenced. It is both ends of a small protocol on the member's own network:
//
//   - The Guard is a sidecar of the desktop's Pod, the agent's binary with the subcommand
//     guard. It requests from the agent every few seconds how long the desktop may go on,
//     and serves the probe by which the kubelet keeps the desktop: when the lease is over
//     the probe fails, and the kubelet, which depends on nothing else for that, ends the
//     desktop. machine.go is pure, Guard the I/O around it.
//   - The Gate is an init container before a desktop of mode Hold, the same binary with
//     the subcommand gate. It retries until the agent permits the start, and ends. A
//     kubelet runs it again when it creates the Pod's sandbox again, after a power cut or
//     a reboot of the node, and not when the desktop alone has ended.
//   - The Endpoint is the agent's: it answers guards from agent/fence and the
//     assignments, and gates from what this process of the agent knows of them.
//
// Invariants:
//   - A gate opens for a desktop of mode Hold only where this process of the agent knows
//     that the placement is current: the hub ordered that epoch since the process began,
//     or has affirmed it by a number that this process was the first to use
//     (status.lapse), which the hub does under the lock under which it would reschedule
//     the session. A desktop that runs never waits, nor does one whose container ends;
//     but after a power cut, and in each new sandbox after a restart of the agent, the
//     desktop waits for the hub.
//   - A gate succeeds only with the agent's permission, and an answer to a guard opens
//     none.
//   - The remaining lease counts from when the guard sent its request, in CLOCK_BOOTTIME.
//   - An answer counts only if the agent has signed it, for this assignment and this very
//     request. Guard and gate get the public half of a key whose other half is in a
//     Secret of the agent's namespace alone: there is no secret in the Pod.
//   - A desktop does not start before its guard has a lease, and one whose lease was over
//     does not go on, whatever the agent answers later: a new Pod does.
//   - Guards protect against partitions and crashes, not against hostile workloads: a
//     desktop shares its guard's network, and one that takes its guard's port answers the
//     kubelet itself. That harms only its own user, whose session may then run twice.
//   - No address can block the answers to others: connections are limited by address and
//     in total, both to the agent and to a guard, and those beyond are closed at once.
//   - The kubelet does not restart a desktop that has ended: the agent creates a new Pod,
//     if the lease permits it.
package guard
