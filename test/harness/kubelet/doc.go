// Package kubelet simulates the kubelets of all nodes of one member: it does what KWOK's Pod
// stages do in a harness without it, and also what safety depends on. It runs as a process of
// its own, `fleet kubelet`, which stands for the machines of the member: when it is killed,
// all that runs there ends.
//
// It runs no images. A container is a timer, with the sample desktop (test/desktop/app) at its
// port, which requires the credentials that the Pod mounts, except the guard
// beside a desktop and the gate before one (GuardContainer, GateContainer): these are the
// process of the Pod's command, with its environment, at the Pod's address.
//
// Like a real kubelet, it implements:
//
//   - init containers in order; one that always restarts is a sidecar, and the next one
//     starts once its startup probe has succeeded
//   - startup, liveness and readiness probes, with their periods and thresholds; a failed one
//     ends its container by TERM, grace period and KILL
//   - restart policies, and a back-off between restarts
//   - deletion of a Pod: TERM, grace period, KILL, sidecars last and in reverse, the last
//     status, and only then the deletion of the object
//   - forced deletion: the Pod runs until the deletion has been observed and its grace period
//     is over
//   - outages of the API server: its Pods run on, and once the server is back it writes their
//     status and reconciles all Pods again
//   - power cuts: Pods fail, or their containers are restarted, as the restart policy
//     requires, after their init containers have run again
//
// The log of containers (log.go) records what ran when, in a file outside of any cluster.
// test/observer evaluates it.
//
// One goroutine, the loop, owns all state (loop.go); probes, processes and writes happen
// beside it and report to it.
//
// # Invariants
//
//   - A container's start is in the log before it runs, and its end only after it has ended:
//     the log never shows less than what ran.
//   - The kubelet deletes a Pod's object only after the end of its last container is in the
//     log.
package kubelet
