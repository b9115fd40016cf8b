// Command fleet measures the hub with many members: `make scale-fleet` runs it.
//
// The hub is the production program, two replicas with a real API server. The members are
// simulated in this process: each enrolls, connects and renews its lease by the production
// agent's packages (agent/identity, agent/link), and answers orders from memory. Nothing
// of a member is a cluster, so that figures of members mean nothing: those of the hub do.
//
// It prints rates, writes, memory and times of the hub, and fails if a bound of
// docs/design.md, section 10 is missed.
package main
