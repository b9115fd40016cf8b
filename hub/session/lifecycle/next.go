package lifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/backoff"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
)

// pass is one computation of a plan.
type pass struct {
	Plan
	in *Input
	// spec of the session's current or next run, and its revision; nil if there is none.
	spec     *v1alpha1.TemplateSpec
	revision string
	// template is the current one, if the session's next run has its revision.
	template *v1alpha1.VDITemplate
	// resources that the session has or would get.
	resources corev1.ResourceList
	// awaitedStop is why the session waits for the stop of an earlier placement in a lost
	// member.
	awaitedStop string
	// home as acquireHome found it.
	home homeStep
	// mirrored is the status with the member's report, if its write may wait.
	mirrored *v1alpha1.SessionStatus
}

// next is the result of a step: whether the following steps still apply.
type next bool

const (
	proceed next = true
	done    next = false
)

// Next returns the plan for a session.
func Next(in *Input) Plan {
	p := newPass(in)
	if !in.Session.DeletionTimestamp.IsZero() {
		end(p)
		p.address()
		return p.Plan
	}
	for _, step := range []func(*pass) next{
		adopt,
		recordEnds,
		failBack,
		skipRun,
		mirror,
		resolve,
		accept,
		mode,
		rescheduleLost,
		place,
		stop,
		resume,
		move,
		evict,
		overlay,
	} {
		if step(p) == done {
			break
		}
	}
	if p.Err != nil {
		return Plan{Err: p.Err}
	}
	p.conclude()
	return p.Plan
}

func newPass(in *Input) *pass {
	return &pass{in: in, Plan: Plan{Write: Write{Session: in.Session.DeepCopy()}}}
}

// conclude summarizes the status, claims the home, and determines the session's next deadline.
func (p *pass) conclude() {
	s, now := p.Session, p.in.Now
	p.address()
	status.Summarize(s, p.spec, now)
	if message, ok := status.ExpiryWarning(p.in.Session, s); ok {
		p.warn(v1alpha1.EventExpiringSoon, "Expire", message)
	}
	if p.spec != nil {
		p.soon(status.NextDue(s, p.spec, now))
	}
	if p.Hold {
		return
	}
	if p.Settle > 0 && !equality.Semantic.DeepEqual(*p.mirrored, s.Status) {
		p.Settle = 0
	}
	claimHome(p)
}

// soon has the next plan computed after a time at the latest, unless that is zero.
func (p *pass) soon(after time.Duration) { p.Again = backoff.Sooner(p.Again, after) }

// normal and warn add an event.
func (p *pass) normal(reason, action, message string) {
	p.Events = append(p.Events, Event{"Normal", reason, action, message})
}

func (p *pass) warn(reason, action, message string) {
	p.Events = append(p.Events, Event{"Warning", reason, action, message})
}

// decide returns the scheduler's answer to the session's request. If ok is false, there
// is none yet.
func (p *pass) decide(request Request) (a scheduling.Answer, ok bool) {
	if d, claimed := claimed(p); claimed {
		p.Waits = d.Reason
		return scheduling.Answer{Decision: d}, true
	}
	if p.in.Answer == nil {
		p.Request = &request
		return a, false
	}
	a = *p.in.Answer
	p.soon(a.Again)
	if !a.Placed {
		p.soon(p.in.Known.RetryAfter)
	}
	return a, true
}

// log adds a line about the session to log once its status is written.
func (p *pass) log(message string, values ...any) {
	p.Lines = append(p.Lines, Line{message, append([]any{"session", keyOf(p.Session)}, values...)})
}

func keyOf(s *v1alpha1.VDISession) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
}
