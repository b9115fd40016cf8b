package session

import (
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// judge gives the session's attempt up where going on would not help, or a step
// has done so. The failure is in the status that this pass writes; the next,
// which reads it, removes the Pod, and nothing is tried until somebody raises
// the attempt.
func (r *Reconciler) judge(p *pass, status *api.SessionAssignmentStatus) {
	if mustNotRun(p) {
		return
	}
	if p.failure == nil {
		failure, look := observe.GiveUp(p.assignment, p.found, *status, p.memory.ended.times, r.Options.Patience, p.now)
		p.failure = failure
		p.RequeueWithin(look)
	}
	if p.failure != nil {
		observe.Fail(status, p.assignment, p.failure, p.now)
	}
}
