// Package integration tests a whole fleet: a hub of two replicas and three
// members, all real control planes, hub and agents as real processes. Faults
// come from outside: processes are killed by pid, networks are cut at a proxy.
package integration
