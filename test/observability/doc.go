// Package observability tests the rules and dashboards of the charts: that they query
// what the binaries export, and all of it; that each alert fires when it should, by
// Prometheus' own engine, and has a line with the remedy.
package observability
