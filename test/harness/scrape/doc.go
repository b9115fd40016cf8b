// Package scrape reads the metrics of hub and agents as Prometheus does: by HTTPS, with
// the token of a ServiceAccount that their charts authorize.
package scrape
