// Package faults breaks a real fleet and checks its guarantees (docs/design.md, section 9).
// `make test-faults` runs all of it, `make test` a short part.
//
// # Packages
//
//   - stage: a fleet of real processes (test/harness), with two replicas of the hub, three members, an
//     emulated network between them (netem), and a supervisor that restarts processes. In a fleet of
//     kind Growing the members have no nodes of their own: real Karpenters add them for sessions.
//   - workload: for every scenario, sessions that are created, deleted, recreated, suspended, resumed
//     and changed all along, drawn from its seed.
//   - watch and checker: watches of the API servers of hub and members, and the pure checker of the
//     guarantees, which confirms at the API servers what only they can prove. With simulated kubelets,
//     their container logs alone decide G1 (test/observer).
//   - simulated: members without an API server, where a scenario needs more of them than this machine
//     can run. The hub is the real one, and they are checked like the others.
//   - runner: runs one scenario, repairs what is left, and measures how long both sides need to agree.
//   - probe: sessions beside the workload that only the fleet acts upon.
//   - scenarios, scenarios/hostile, scenarios/failover: the scenarios, each a function that injects
//     faults and then stops.
//   - This package: flags, the pass over the scenarios, the soak, and the report, which is printed and
//     written as JSON.
//
// # Violations
//
// A violation counts only if no lag of a watch explains it: see checker.Suspicion. FACTOR scales
// the times that the fleet has after a fault; stage.Allowance is added for what no factor scales.
// A session that was rescheduled without waiting for its stop is checked for its mode, and for how
// long its member was away.
//
// # Running it
//
//	FOCUS=leader SEED=7 FACTOR=0.5 make test-faults
//	SOAK=30m make test-faults
//
// The seed fixes the workload's draws and every choice of a scenario; which of two processes is
// faster depends on the machine.
package faults
