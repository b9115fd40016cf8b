// Package failover has the scenarios that lose members, or seem to. Their fleets have simulated
// kubelets, with guards beside desktops, whose container logs show what ran.
package failover
