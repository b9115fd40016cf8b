// Package kubelet plays the kubelets of all nodes of one member: what KWOK's
// Pod stages do in a harness without it, but with what safety depends on. It is a
// process of its own, `fleet kubelet`, and that process is the machines of the
// member: when it is killed, all that ran there has ended.
//
// It runs no images. A container is a timer, with a listener at its port, except
// the guard beside a desktop and the gate before one (GuardContainer, GateContainer),
// which are the real thing: the process of the Pod's command, with its environment, at
// the Pod's address.
//
// What it does as a real one does:
//
//   - init containers in order; those that restart always are sidecars, and what
//     comes after one waits until it has started, which its startup probe decides
//   - startup, liveness and readiness probes, with their periods and thresholds;
//     a failed one ends its container by TERM, its grace, and KILL
//   - restart policies, and a back-off between restarts
//   - a Pod that is deleted: TERM, grace, KILL, sidecars last and in reverse, the
//     last status, and only then the object's own deletion
//   - a Pod whose object was deleted by force runs until that has been observed
//     and its grace is over
//   - without an API server it continues with what it has, writes what it has to
//     report once there is one again, and reconciles all Pods again
//   - after a power cut nothing runs of what did: such Pods fail, or their
//     containers are restarted, as the restart policy requires, once their init
//     containers have run again
//
// What ran when is in the log of containers (log.go), a file that no cluster
// holds. test/observer decides by it.
//
// One goroutine, the loop, owns all state (loop.go); probes, processes
// and writes happen beside it and report to it.
//
// # Invariants
//
//   - A container's start is in the log before it runs, and its end only after
//     it has ended: what ran by the log is never less than what did.
//   - A Pod's object is finally deleted only after the last of its containers
//     has ended and that is in the log.
package kubelet
