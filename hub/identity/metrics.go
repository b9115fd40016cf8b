package identity

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	registered = promauto.With(metrics.Registry)

	metricIssued = registered.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_identity_issued_total",
		Help: "Certificates issued, by kind.",
	}, []string{"kind"})
	metricRefused = registered.NewCounterVec(prometheus.CounterOpts{
		Name: "vdi_hub_identity_refused_total",
		Help: "Requests for certificates that were refused, by reason.",
	}, []string{"reason"})
	metricCAExpiry = registered.NewGauge(prometheus.GaugeOpts{
		Name: "vdi_hub_identity_ca_expiry_timestamp_seconds",
		Help: "When the issuing CA expires, in seconds since 1970; 0 if this hub issues no certificates.",
	})
)
