package simulation

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/trace"
)

// run is one replay of a trace.
type run struct {
	events
	trace    *trace.Trace
	options  Options
	hub      *hub
	members  []*member
	byName   map[string]*member
	sessions []*session
	made     int // number of Pods
	result   Result
}

// Run replays a trace.
func Run(t *trace.Trace, o Options) *Result {
	r := newRun(t, o)
	end := t.End() + settling
	for r.step(end) {
	}
	return r.conclude()
}

func newRun(t *trace.Trace, o Options) *run {
	if o.Clock == nil {
		o.Clock = func() time.Time { return time.Time{} }
	}
	r := &run{trace: t, options: o, byName: map[string]*member{}, result: Result{Strategy: o.Strategy}}
	r.hub = newHub(r)
	for i := range t.Members {
		m := newMember(r, i)
		r.members = append(r.members, m)
		r.byName[m.name] = m
		// The hub has a report of every member before the trace begins.
		m.sequence++
		r.hub.reported(m, capacityOf(m.model.Report(), m.sequence))
	}
	r.prepare()
	return r
}

// prepare schedules the events of the trace, and the samples.
func (r *run) prepare() {
	for i := range r.trace.Sessions {
		s := newSession(&r.trace.Sessions[i])
		r.sessions = append(r.sessions, s)
		r.after(s.At, func() { r.hub.place(s) })
	}
	for i := range r.trace.Pods {
		p := &r.trace.Pods[i]
		m := r.byName[p.Member]
		r.after(p.At, func() { m.schedule(&pod{uid: r.newUID(), size: p.Size, runs: p.Runs}) })
	}
	for _, l := range r.trace.Losses {
		r.after(l.At, func() { r.lose(l) })
	}
	for at := r.options.Sample; at <= r.trace.End(); at += r.options.Sample {
		r.after(at, r.sample)
	}
}

func (r *run) newUID() types.UID {
	r.made++
	return types.UID(fmt.Sprintf("pod-%d", r.made))
}

// namespaces returns those of the sessions.
func (r *run) namespaces() map[string]bool {
	all := map[string]bool{}
	for i := range r.trace.Sessions {
		all[r.trace.Sessions[i].Namespace] = true
	}
	return all
}
