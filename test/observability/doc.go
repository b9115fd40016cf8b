// Package observability tests the rules and dashboards of the charts: that they query only
// what the binaries export, and all of it; that each alert fires when it should, in
// Prometheus' own engine, and has a remedy.
package observability
