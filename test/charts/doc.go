// Package charts tests what deploy/ installs: the Helm charts with helm itself,
// the kustomizations, and all that they render on a real API server.
package charts
