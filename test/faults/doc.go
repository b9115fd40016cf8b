// Package faults breaks a real fleet and watches its promises (docs/design.md, section 9).
// `make test-faults` runs all of it, `make test` a short part.
//
// # What there is
//
//   - A fleet of real processes (test/harness): two replicas of the hub, three
//     members, a network of ours between them (wire.go), and a supervisor that
//     starts again what has ended, as a kubelet would (supervise.go).
//   - A workload for every scenario, drawn from its seed: sessions are created,
//     deleted, made again under the same name, suspended, resumed and edited all
//     along (workload.go).
//   - A checker of promises (checker.go). It is pure: it is told what the API
//     servers of hub and members hold, by watches of the tests' own (watch.go),
//     and asks them again where only that can prove a violation.
//   - Simulated members (simulated.go), where a scenario needs more of them than
//     this machine has room for, or more haste than its API servers can make: the
//     production link over a store in memory (simulated_memory.go). The hub is the
//     real one, and they are judged like the others; nothing that they do says
//     anything of a member's API server.
//   - An observer of what really ran (kubelets.go), in the scenarios that lose
//     members (scenario_failover_*.go). Their fleets have simulated kubelets, with
//     guards beside desktops, that log every start and end of a container outside of
//     all clusters. test/observer follows these logs from first to last, and what
//     overlaps there is a violation of promise 1, whatever the API servers hold: it
//     alone judges that promise in these fleets. Beside the workload they have
//     guests (guests.go): sessions of each failover mode that nobody touches, of
//     which a scenario says where they must be, and since when.
//   - Attackers without a certificate (scenario_attack*.go), at another address of
//     loopback than the agents', or at the same. What the leader takes and how soon
//     agents are back is compared with the same fleet in peace.
//   - Scenarios (scenario_*.go), each a function that does harm and then stops.
//     The runner heals what is left, and measures how long both sides need to
//     agree (agree.go).
//   - A report (report.go): scenario, seed, what was injected and when, and
//     time to agree. It is printed, and written as JSON.
//
// # What is judged
//
// That a session was rescheduled without waiting for its stop is judged as well: by
// its mode, and by how long its member was away (checker_lost.go).
//
// A violation counts only where no delay of a watch explains it: see doubt. What
// the fleet is still allowed to do after a fault is scaled by FACTOR, plus
// allowance for what no factor scales.
//
// # Running it
//
//	FOCUS=leader SEED=7 FACTOR=0.5 make test-faults
//	SOAK=30m make test-faults
//
// The seed fixes the workload's draws and every choice of a scenario; which of
// two processes is faster remains the machine's to decide.
package faults
