// Package pki issues the certificates of the harness: those of its control planes, and
// those of the link between hub and agents, each from an authority of its own. Keys stay
// in memory and in the fleet's directory, and certificates end after a day.
package pki
