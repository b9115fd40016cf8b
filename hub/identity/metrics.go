package identity

import (
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

var (
	metricIssued = metrics.NewCounterVec("vdi_hub_identity_issued_total",
		"Certificates issued, by kind.", "kind")
	metricRefused = metrics.NewCounterVec("vdi_hub_identity_refused_total",
		"Requests for certificates that were refused, by reason.", "reason")
	metricCAExpiry = metrics.NewGauge("vdi_hub_identity_ca_expiry_timestamp_seconds",
		"When the issuing CA expires, in seconds since 1970; 0 if this hub issues no certificates.")
)
