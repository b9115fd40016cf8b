// Package guard stops a fenced desktop when the hub's lease is over and nobody
// may be alive to do so: the agent dead, the member's API server down. It is both
// ends of a small conversation on the member's own network:
//
//   - The guard is a sidecar of the desktop's Pod, the agent's binary with the
//     sub-command guard. It asks the agent every few seconds how long the desktop
//     may go on, and serves the probe by which the kubelet keeps the desktop: when
//     the lease is over the probe fails, and the kubelet, which needs nobody for
//     that, ends the desktop. machine.go is pure, Guard the I/O around it.
//   - The Endpoint is the agent's: it answers from agent/fence and the
//     assignments.
//
// Invariants:
//   - What is left counts from when the guard asked, in CLOCK_BOOTTIME.
//   - An answer counts only if the agent has signed it, for this assignment and
//     this very question. The guard is given the public half of a key whose other
//     half is in a Secret of the agent's namespace alone: there is nothing secret
//     in the Pod.
//   - A desktop does not start before its guard has a lease, and one whose lease
//     was over does not go on, whatever the agent says later: a new Pod does.
//   - A desktop that has ended is not started again by the kubelet: the agent
//     makes a new Pod, if the lease allows it.
package guard
