// Package election determines whether a replica of hub or agent certainly leads.
//
// Leader election alone prevents two leaders at once only as long as both check their
// clocks. A process that was stopped (SIGSTOP, a frozen cgroup, a suspended machine) does
// not, and continues long after another took over. So everything that only a leader may
// do checks Leadership.Leading first: grants to agents, and every write to the API server
// (Leadership.Wrap). The clock is the one that runs while a machine is suspended.
//
// A leader of the hub stops when it can't renew its lock. An agent's does not, since
// desktops would be lost with it: it keeps the lead until it reads that another replica
// has taken it, and writes nothing while that is uncertain (Incumbent).
package election
