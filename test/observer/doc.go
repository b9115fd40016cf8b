// Package observer decides what ran. It reads the members' logs of containers, which the
// simulated kubelets write outside of all clusters, and reports when each desktop ran and
// whether two of one session ever ran at once. That is G1 of the design: what ran decides it,
// never what an API server shows.
//
//	history, err := observer.Read(fleet.ContainerLogs()...)
//	history.Overlaps(isRestart)          // none, or G1 is broken
//	history.RanAt(session, history.Until)
//
// During a scenario a Follower reads new records, and reports an overlap while it lasts.
//
// # Invariants
//
//   - It shares no code with hub and agent, nor with the kubelets: what a record means is
//     defined here a second time.
//   - What may have run counts as run. A start counts from its record, which is written
//     before it; an end from its record, which is written after it. Without an end a
//     container runs until its member is recorded as powered off, or as restarted.
//   - What it cannot read is never omitted silently: a torn record is no more than the last
//     bytes of a kubelet that was killed, anything else is an error.
package observer
