// Package guard prevents desktops from running twice where only the kubelet is certain to
// be alive. It stops a fenced desktop when the hub's lease is over, even if the agent and
// the member's API server are down. It prevents the kubelet from starting a held desktop on
// its own, as when power returns to a member that an operator has declared fenced. It has
// both ends of a small protocol on the member's network:
//
//   - The Guard is a sidecar of the desktop's Pod, the agent's binary with the subcommand
//     guard. It requests the remaining lease from the agent every few seconds, and serves
//     the desktop's liveness probe: when the lease is over the probe fails, and the
//     kubelet stops the desktop. machine.go is pure, Guard the I/O around it.
//   - The Gate is an init container before a desktop of mode Hold, the same binary with
//     the subcommand gate. It retries until the agent permits the start, and exits. A
//     kubelet runs it again in each new sandbox, as after a power cut or a reboot of the
//     node, and not when only the desktop has ended.
//   - The Endpoint in the agent answers guards from agent/fence and the assignments, and
//     gates by what this process was ordered and by the hub's affirmations.
//
// Invariants:
//   - A gate opens for a desktop of mode Hold only if the hub ordered its epoch since this
//     process of the agent began, or has affirmed it by a number that this process was the
//     first to use (status.lapse). The hub affirms under the lock under which it would
//     reschedule the session. A desktop waits for the hub after a power cut, and in each
//     new sandbox after a restart of the agent; not when only its container restarts.
//   - A gate succeeds only with the agent's permission; an answer to a guard is none.
//   - The remaining lease counts from when the guard sent its request, in CLOCK_BOOTTIME.
//   - An answer counts only if the agent has signed it for this assignment and this
//     request. Guard and gate have the public key; the private one is only in a Secret of
//     the agent's namespace.
//   - A desktop does not start before its guard has a lease. One whose lease was over is
//     stopped, whatever the agent answers later; a new Pod may start.
//   - Guards protect against partitions and crashes, not against hostile workloads: a
//     desktop shares its guard's network namespace, and could answer the kubelet on its
//     guard's port. That harms only its own user, whose session may then run twice.
//   - No address can block the answers to others: connections are limited by address and
//     in total, both to the agent and to a guard, and those beyond are closed at once.
//   - The kubelet does not restart a desktop that has ended: the agent creates a new Pod if
//     the lease permits it.
package guard
