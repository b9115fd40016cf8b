// Package charts tests what deploy/ installs: the Helm charts with helm itself, and what
// they and `make deploy` install on a real API server.
package charts
