// Package observer decides what ran: it reads the members' logs of containers, which
// the simulated kubelets write outside of all clusters, and reports when each desktop
// ran and whether two of one session ever did at once. That is G1 of the
// design, and it is decided by what ran, never by what any API server shows.
//
//	history, err := observer.Read(fleet.ContainerLogs()...)
//	history.Overlaps(isRestart)          // none, or G1 is broken
//	history.RanAt(session, history.Until)
//
// All along a scenario a Follower reads what is new, and reports an overlap while
// it lasts.
//
// # Invariants
//
//   - It shares no code with hub and agent, nor with the kubelets: what a line means
//     is defined here once more.
//   - What is uncertain ran. A start counts from its line, which is written before
//     it; an end from its line, which is written after it. What has no end runs
//     until its member is recorded to have no power, or to have been restarted.
//   - What it cannot read is never omitted silently: a torn line is no more than
//     the last bytes of a kubelet that was killed, anything else is an error.
package observer
