package member

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/buffer"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// dueBuffers is what the buffers of a member are to hold, from a time until their schedules change it.
type dueBuffers struct {
	// slots by template, replaced and never changed; nil without buffers.
	slots map[string]int32
	// unreadable are the errors of periods that can't be read, by template.
	unreadable map[string]string
	// at is the time of the evaluation, and next the one at which a period begins or ends; zero if none does.
	at, next time.Time
}

// due reports whether the schedules must be evaluated again: a period has begun or ended since, or the wall
// clock was set back.
func (b *dueBuffers) due(now time.Time) bool {
	return !b.next.IsZero() && (!now.Before(b.next) || now.Before(b.at))
}

// wait returns the time until the schedules must be evaluated again, 0 if they need not be.
func (b *dueBuffers) wait(now time.Time) time.Duration {
	if b.next.IsZero() {
		return 0
	}
	return max(b.next.Sub(now), time.Millisecond)
}

// evaluate evaluates the schedules of buffers at a time, and reports whether any of them is to hold another
// number of slots than before.
func (b *dueBuffers) evaluate(all []v1alpha1.Buffer, now time.Time) (changed bool) {
	before := b.slots
	*b = dueBuffers{at: now}
	for i := range all {
		slots, next, err := buffer.Slots(&all[i], now)
		if b.slots == nil {
			b.slots, b.unreadable = map[string]int32{}, map[string]string{}
		}
		b.slots[all[i].Template] = slots
		if err != nil {
			b.unreadable[all[i].Template] = err.Error()
		}
		if !next.IsZero() && (b.next.IsZero() || next.Before(b.next)) {
			b.next = next
		}
	}
	return !maps.Equal(before, b.slots)
}

// regrouped evaluates the schedules of a member's buffers if they are due or not those of a new spec, and reports
// whether its agent must get its node groups and buffers again.
func (m *member) regrouped(spec *v1alpha1.MemberClusterSpec, now time.Time) bool {
	changed := !equality.Semantic.DeepEqual(m.spec.NodeGroups, spec.NodeGroups)
	if m.buffers.due(now) || !equality.Semantic.DeepEqual(m.spec.Buffers, spec.Buffers) {
		changed = m.buffers.evaluate(spec.Buffers, now) || changed
	}
	return changed
}

// toWire returns the buffers as agents get them, with the current revisions of their templates: nil before the
// hub has read these, and then a buffer stays as it is. One without a template is left out.
func (b *dueBuffers) toWire(current map[string]string) (out []*fleetv1.Buffer) {
	for _, template := range slices.Sorted(maps.Keys(b.slots)) {
		revision, exists := current[template]
		if exists || current == nil {
			out = append(out, &fleetv1.Buffer{Template: template, Revision: revision, Slots: b.slots[template]})
		}
	}
	return out
}

// buffersFromWire converts the states of buffers. An unknown reason is that of a failure.
func buffersFromWire(buffers []*fleetv1.BufferStatus) (out []v1alpha1.BufferStatus) {
	for _, b := range buffers {
		s := v1alpha1.BufferStatus{Template: b.GetTemplate(), Held: b.GetHeld(), Pending: b.GetPending(), Reason: b.GetReason(), Message: b.GetMessage()}
		switch s.Reason {
		case "", v1alpha1.ReasonBuffersNotEnabled, v1alpha1.ReasonBufferPriorityClass, v1alpha1.ReasonBufferUnavailable, v1alpha1.ReasonBufferCapacity:
		default:
			s.Reason = v1alpha1.ReasonBufferFailed
		}
		out = append(out, s)
	}
	return out
}

// writeBuffers writes the states of the buffers into a status, ordered by template, and whether all are kept.
func writeBuffers(status *v1alpha1.MemberClusterStatus, v view, generation int64) {
	if len(v.spec.Buffers) == 0 {
		status.Buffers = nil
		v1alpha1.RemoveCondition(&status.Conditions, v1alpha1.ConditionBuffered)
		return
	}
	shown := statesByTemplate(status.Buffers)
	if v.capacity != nil {
		shown = statesByTemplate(v.capacity.Buffers)
	}
	states := make([]v1alpha1.BufferStatus, 0, len(v.spec.Buffers))
	for i := range v.spec.Buffers {
		states = append(states, bufferStatus(v, v.spec.Buffers[i].Template, shown))
	}
	slices.SortFunc(states, func(a, b v1alpha1.BufferStatus) int { return cmp.Compare(a.Template, b.Template) })
	if !equality.Semantic.DeepEqual(status.Buffers, states) {
		status.Buffers = states
	}
	v1alpha1.SetCondition(&status.Conditions, generation, bufferedCondition(states))
}

func statesByTemplate(states []v1alpha1.BufferStatus) map[string]v1alpha1.BufferStatus {
	out := make(map[string]v1alpha1.BufferStatus, len(states))
	for _, s := range states {
		out[s.Template] = s
	}
	return out
}

// bufferStatus returns the state of a buffer, of what the member reports or the status has shown. What the hub
// itself knows to be wrong comes first.
func bufferStatus(v view, template string, shown map[string]v1alpha1.BufferStatus) v1alpha1.BufferStatus {
	s, known := shown[template]
	s.Template, s.Slots = template, v.buffers.slots[template]
	_, exists := v.current[template]
	unreadable := v.buffers.unreadable[template]
	switch {
	case v.current != nil && !exists:
		s = v1alpha1.BufferStatus{Template: template, Slots: s.Slots, Reason: v1alpha1.ReasonTemplateNotFound,
			Message: "there is no VDITemplate of this name: create it, or remove the buffer from spec.buffers"}
	case unreadable != "":
		s.Reason = v1alpha1.ReasonBufferSchedule
		s.Message = fmt.Sprintf("the hub ignores a period of its schedule, which it can't read (%s): correct it", unreadable)
	case !known:
		s.Reason = v1alpha1.ReasonBufferUnreported
		s.Message = "the agent has not reported it: if that lasts, check that the member is Ready, and upgrade its agent"
	}
	return s
}

// bufferedCondition reports whether all buffers are kept. The first that is not has the reason.
func bufferedCondition(states []v1alpha1.BufferStatus) metav1.Condition {
	buffered := condition(v1alpha1.ConditionBuffered)
	failing := 0
	var first *v1alpha1.BufferStatus
	for i := range states {
		if states[i].Reason == "" {
			continue
		}
		if failing++; first == nil {
			first = &states[i]
		}
	}
	if first == nil {
		return buffered(metav1.ConditionTrue, v1alpha1.ReasonBuffersKept, "every buffer is kept: status.buffers has what each holds")
	}
	message := fmt.Sprintf("the buffer of template %s is not kept: %s", first.Template, first.Message)
	if failing > 1 {
		message += fmt.Sprintf("; %d more are not either: see status.buffers", failing-1)
	}
	return buffered(metav1.ConditionFalse, first.Reason, message)
}
