// Package failover has the scenarios that lose members, or have it seem so. Their fleets have
// simulated kubelets, with guards beside desktops, whose container logs decide what ran.
package failover
