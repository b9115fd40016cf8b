package metrics

import "sigs.k8s.io/controller-runtime/pkg/metrics/server"

// Options returns the options of the metrics server. With authentication it serves HTTPS, with
// a self-signed certificate, and checks by TokenReview and SubjectAccessReview that a caller
// may get /metrics. Without, it serves HTTP to every caller that reaches the address.
func Options(address string, authentication bool) server.Options {
	if !authentication {
		return server.Options{BindAddress: address}
	}
	return server.Options{BindAddress: address, SecureServing: true, FilterProvider: filter}
}
