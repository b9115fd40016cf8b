package door

import "github.com/vdi-fleet/vdi-fleet/proto/metrics"

// The results of requests.
const (
	resultEntered  = "entered"
	resultAdmitted = "admitted"
	resultRefused  = "refused"
	resultAway     = "away"
)

var (
	visits = metrics.NewCounterVec("vdi_door_visits_total",
		"Requests to desktops by result: entered (a browser with a new pass), admitted, refused, or away (the desktop is not ready, or its credentials can't be read).", "result")
	connections = metrics.NewGauge("vdi_door_connections", "Open WebSocket connections to desktops.")
	dials       = metrics.NewHistogramVec("vdi_door_dial_seconds",
		"Duration of connecting to desktops' Pods, by whether that succeeded.",
		[]float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5}, "connected")
)
