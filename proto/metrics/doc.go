// Package metrics configures how hub and agent serve their metrics: over HTTPS, to
// callers that the API server of their cluster authenticates and authorizes.
package metrics
