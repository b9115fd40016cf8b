// Package leadership knows whether this replica of the hub leads for certain,
// and tells the agents' Service which replica does.
//
// Leader election alone keeps two replicas from believing at once that they
// lead only as long as both look at their clocks. A process that was stopped
// (SIGSTOP, a frozen cgroup, a suspended machine) does not look, and goes on
// where it stood when it is woken, long after another took over. So everything
// that a leader alone may do asks Guard.Leading first: grants to agents, and
// every write to the hub's API server (Guard.Wrap). The clock is the one that
// runs while a machine is suspended.
//
// Role puts the label LabelRole on the Pod of the replica that
// leads, and takes it off the others. The Service for agents selects it, so that
// all replicas can be Ready and agents still find the one that listens.
package leadership
