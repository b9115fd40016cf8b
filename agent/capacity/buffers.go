package capacity

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Buffers are the buffers of the member, and what they depend on.
type Buffers struct {
	// Known is set once the hub has sent which there are.
	Known bool
	All   []Buffer
	// Pods is how many Pods of buffers of the agent the member has.
	Pods int
	// Class is the PriorityClass of these Pods, nil if the member has none.
	Class *BufferClass
}

func (b *Buffers) equal(o *Buffers) bool {
	same := b.Class == o.Class || b.Class != nil && o.Class != nil && *b.Class == *o.Class
	return same && b.Known == o.Known && b.Pods == o.Pods && slices.Equal(b.All, o.All)
}

// Buffer is a number of slots to keep free for sessions of a template.
type Buffer struct {
	Template string
	// Requirements of the current revision of the template; nil while they are not known, and then the
	// buffer stays as it is.
	Requirements *fleetv1.TemplateRequirements
	// Slots is how many it is to hold, and Fits how many of these fit on nodes that exist, that are
	// being added, or that node groups may add, besides all sessions and the buffers before it.
	Slots, Fits int32
	// Unavailable is why the member can't run the template, if so.
	Unavailable string
}

// BufferClass is the PriorityClass of the Pods of buffers.
type BufferClass struct {
	UID   types.UID
	Value int32
}

// BufferWatcher is the part of a Watcher for buffers.
type BufferWatcher struct{ w *Watcher }

// BuffersOf returns the part of a Watcher for buffers.
func BuffersOf(w *Watcher) BufferWatcher { return BufferWatcher{w} }

// Buffers returns the buffers as of the last report. They must not be changed.
func (b BufferWatcher) Buffers() Buffers {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	return b.w.model.buffers.filled
}

// Changes receives a value when what Buffers returns may have changed.
func (b BufferWatcher) Changes() <-chan struct{} { return b.w.bufferChanges }

// SetStates replaces the states of the buffers in reports.
func (b BufferWatcher) SetStates(states []*fleetv1.BufferStatus) {
	b.w.mu.Lock()
	defer b.w.mu.Unlock()
	if setBufferStates(b.w.model, states) {
		b.w.signal()
	}
}

// announceBuffers announces a change of the buffers in the last report.
func announceBuffers(w *Watcher) {
	w.mu.Lock()
	changed := w.model.buffers.changed
	w.model.buffers.changed = false
	w.mu.Unlock()
	if !changed {
		return
	}
	select {
	case w.bufferChanges <- struct{}{}:
	default:
	}
}

// buffers is the part of a model for buffers.
type buffers struct {
	// ordered are the buffers as the hub sent them, ordered by template; known once it has sent any set.
	ordered []*fleetv1.Buffer
	known   bool
	class   *BufferClass
	// pods is how many Pods of buffers of the agent there are.
	pods int
	// filled is the result of the last report, changed is set if that is another than the one before it, and
	// states are the states that reports have.
	filled  Buffers
	changed bool
	states  []*fleetv1.BufferStatus
}

// count counts a Pod, or removes it if sign is -1.
func (b *buffers) count(p *Pod, sign int) {
	if p.Buffer != "" {
		b.pods += sign
	}
}

// setBuffers replaces the buffers.
func setBuffers(m *Model, all []*fleetv1.Buffer) {
	m.version++
	m.buffers.ordered = slices.SortedFunc(slices.Values(all), func(a, b *fleetv1.Buffer) int {
		if a.GetTemplate() < b.GetTemplate() {
			return -1
		}
		return 1
	})
	m.buffers.known = true
}

// setBufferClass replaces the PriorityClass of the Pods of buffers; nil if there is none.
func setBufferClass(m *Model, c *BufferClass) {
	m.version++
	m.buffers.class = c
}

// setBufferStates replaces the states of the buffers in reports, and returns whether that is a change.
func setBufferStates(m *Model, states []*fleetv1.BufferStatus) bool {
	if slices.EqualFunc(m.buffers.states, states, func(a, b *fleetv1.BufferStatus) bool { return proto.Equal(a, b) }) {
		return false
	}
	m.version++
	m.buffers.states = states
	return true
}

// fillBuffers computes how much of each buffer fits, where this is free on the nodes that unbound Pods are assumed
// on. It comes last in a report, whose nodes and node groups it uses up. Buffers are filled in the order of their
// templates, so that two for the same nodes never hold more than these have.
func fillBuffers(m *Model, assumed map[string]Resources) {
	out := Buffers{Known: m.buffers.known, Pods: m.buffers.pods, Class: m.buffers.class}
	for _, b := range m.buffers.ordered {
		filled := Buffer{Template: b.GetTemplate(), Slots: b.GetSlots()}
		if t := templateOf(m, b); t != nil {
			filled.Requirements = t.TemplateRequirements
			if _, filled.Unavailable = t.unavailable(m); filled.Unavailable == "" {
				filled.Fits = t.fill(m, assumed, int(b.GetSlots()))
			}
		}
		out.All = append(out.All, filled)
	}
	m.buffers.changed = m.buffers.changed || !m.buffers.filled.equal(&out)
	m.buffers.filled = out
}

// templateOf returns the template of a buffer, nil if the hub has not sent it.
func templateOf(m *Model, b *fleetv1.Buffer) *template {
	for _, t := range m.templates {
		if t.Name == b.GetTemplate() && t.Revision == b.GetRevision() {
			return t
		}
	}
	return nil
}

// fill places Pods of a template as unbound Pods are placed, and returns how many fit.
func (t *template) fill(m *Model, assumed map[string]Resources, slots int) (fits int32) {
	p := &podGroup{key: podKey{class: t.class}, resources: t.requested, demand: t.perPod, constraints: t.constraints, count: slots}
	free := p.assume(m, assumed)
	fits = int32(free) //nolint:gosec // at most 10,000
	if m.growth != nil && free < slots {
		m.growth.place(p, make([]types.UID, slots-free), func(_ types.UID, d dependence) {
			if d.isGrowth() {
				fits++
			}
		})
	}
	return fits
}
