package recorder

import (
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

// Limits of the events of a process. client-go v0.36 keeps each event for 6 minutes, and a
// goroutine for each that the API server has not stored yet: a lost region with ten thousands
// of sessions must not fill the memory of the hub that reschedules them.
const (
	perSecond = 50
	burst     = 1000
)

var dropped = metrics.NewCounter("vdi_events_dropped_total",
	"Events that were not recorded, since there were too many: more than 1000 at once, or 50 a second.")

// limited is a recorder that drops events beyond a limit.
type limited struct {
	events.EventRecorder
	limiter *rate.Limiter
}

// Limited returns a recorder that drops the events beyond the limits of a process, and counts
// them. Conditions show the same as events.
func Limited(recorder events.EventRecorder) events.EventRecorder {
	return &limited{EventRecorder: recorder, limiter: rate.NewLimiter(perSecond, burst)}
}

// Eventf records an event (events.EventRecorder).
func (l *limited) Eventf(regarding, related runtime.Object, severity, reason, action, note string, args ...any) {
	if !l.limiter.Allow() {
		dropped.Inc()
		return
	}
	l.EventRecorder.Eventf(regarding, related, severity, reason, action, note, args...)
}
