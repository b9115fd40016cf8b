// Package observability tests the rules and dashboards of the charts: that they ask for
// what the binaries export, and for all of it; that each alert fires when it should, by
// Prometheus' own engine, and has a line that says what to do.
package observability
