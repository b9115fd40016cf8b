package console

import (
	"net/http"
	"strconv"
	"time"

	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

var (
	loginsTotal = metrics.NewCounterVec("vdi_console_logins_total",
		"Attempts to log in, by way (password, oidc, kubectl) and result (success, failure).", "way", "result")
	actions = metrics.NewCounterVec("vdi_console_actions_total",
		"What users did to sessions, by action and result (success, refused, failure).", "action", "result")
	requests = metrics.NewHistogramVec("vdi_console_request_seconds",
		"Duration of requests, by route and status code. Streams of events are not included.",
		[]float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}, "route", "code")
	unreached = metrics.NewCounterVec("vdi_console_unreached_total",
		"Pages whose browser did not reach the desktop's host, by what the console found: no name, certificate, no answer, no door, or answers.", "found")
	eventClients = metrics.NewGauge("vdi_console_event_clients", "Open pages that receive changes.")
)

// recorded is a response whose status code is recorded.
type recorded struct {
	http.ResponseWriter
	code int
}

func (r *recorded) WriteHeader(code int) {
	r.code = code
	r.ResponseWriter.WriteHeader(code)
}

// Unwrap returns the response for http.ResponseController.
func (r *recorded) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// measured measures the requests of a route.
func measured(route string, next http.Handler) http.Handler {
	if route == "GET /events" {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin, response := time.Now(), &recorded{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(response, r)
		requests.WithLabelValues(route, strconv.Itoa(response.code)).Observe(time.Since(begin).Seconds())
	})
}
