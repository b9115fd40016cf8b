package session

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// record keeps an event until the status that it reports is written. Events report
// transitions only.
func (p *pass) record(r *Reconciler, kind, reason, action, message string) {
	var about runtime.Object = p.session
	p.events = append(p.events, func() {
		r.Recorder.Eventf(about, nil, kind, reason, action, "%s", truncate(message))
	})
}

// truncate limits a note to what events.k8s.io/v1 allows.
func truncate(s string) string {
	const most = 1000
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
