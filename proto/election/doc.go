// Package election makes certain which replica of a program leads, for hub and agent
// alike.
//
// Leader election alone keeps two replicas from believing at once that they
// lead only as long as both look at their clocks. A process that was stopped
// (SIGSTOP, a frozen cgroup, a suspended machine) does not look, and goes on
// where it stood when it is woken, long after another took over. So everything
// that a leader alone may do asks Guard.Leading first: grants to agents, and
// every write to the API server (Guard.Wrap). The clock is the one that
// runs while a machine is suspended.
//
// A leader of the hub gives up when it can't renew its lock. An agent's does not, since
// desktops would be lost with it: it keeps the lead until it learns that another replica
// has taken it, and writes nothing while it can't know (Incumbent).
package election
