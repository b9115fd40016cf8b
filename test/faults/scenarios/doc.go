// Package scenarios lists the scenarios in the order in which they run, and has those that break
// processes, networks, clocks, certificates, API servers and their contents.
package scenarios
