// Package router stands in for DNS, ingress controllers and load balancers: it forwards HTTP requests by their host to
// the processes of a fleet, and can cut off each host.
package router
