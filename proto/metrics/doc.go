// Package metrics registers the metrics of hub and agent, and configures how they are served:
// over HTTPS, to callers that the API server of their cluster authenticates and authorizes.
package metrics
