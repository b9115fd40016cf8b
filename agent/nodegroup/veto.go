package nodegroup

import (
	"reflect"
	"slices"
	"time"
)

const (
	// vetoFor is how long a veto lasts after the last rejection, unless the group changes.
	vetoFor = 30 * time.Minute
	// limitedFor is the same for a rejection by a limit of the autoscaler, which ends without a change of the group.
	limitedFor = repeated
	// settling is how long after a change of a group a rejection may still be by what the group was before:
	// autoscalers decide in rounds of some seconds, and their clocks are not the agent's.
	settling = 10 * time.Second
	// repeated is how old a rejection that still holds may be: Karpenter repeats the event of a Pod after 5
	// minutes, and client-go sends a frequent one as seldom.
	repeated = 6 * time.Minute
)

// Autoscaler is a kind of autoscaler.
type Autoscaler string

// The autoscalers whose events are known.
const (
	Karpenter         Autoscaler = "Karpenter"
	ClusterAutoscaler Autoscaler = "cluster-autoscaler"
)

// source returns the autoscaler whose objects determine the state of a group, empty if none do.
func (s *Spec) source() Autoscaler {
	switch {
	case s.KarpenterNodePool != "":
		return Karpenter
	case s.ClusterAutoscalerGroup != "":
		return ClusterAutoscaler
	}
	return ""
}

// Class identifies the Pods that an autoscaler decides alike about: the desktops of a template revision with the
// same requests.
type Class struct{ Template, Revision, Requests string }

// Rejection is that an autoscaler adds no node for a Pod.
type Rejection struct {
	By      Autoscaler
	Message string
	Time    time.Time
	// Limited is set if the autoscaler could add a node for the Pod, and is at a limit of its own or in backoff.
	Limited bool
	// Created is when the Pod was created.
	Created time.Time
}

// lasts returns how long a veto lasts after the rejection.
func (r *Rejection) lasts() time.Duration {
	if r.Limited {
		return limitedFor
	}
	return vetoFor
}

// vetoes are the rejections of classes of Pods that a group could serve by its shape and its limits. A class that
// has a veto does not count on nodes that the group may add. They are in memory only.
type vetoes struct {
	// basis is what the rejections depend on, as it was last; known is false before it was first determined.
	basis basis
	known bool
	// changed is when it last changed.
	changed time.Time
	// last has the last rejection of each class, with the message of the first since the veto began.
	last map[Class]Rejection
}

// basis is what the decisions of an autoscaler about Pods depend on, as far as it is known. Nodes that come and go
// are not part of it: a group that reaches its limits is full.
type basis struct {
	spec Spec
	pool NodePool
	most int32
}

// basisOf returns the basis of a group, and false if its source was not read yet.
func (t *Tracker) basisOf(g *group) (b basis, read bool) {
	b = basis{spec: g.Spec, pool: t.pools[g.KarpenterNodePool]}
	switch g.source() {
	case Karpenter:
		return b, t.unread == ""
	case ClusterAutoscaler:
		if t.scaler == nil {
			return b, false
		}
		b.most = t.scaler.Groups[g.ClusterAutoscalerGroup].Most
	}
	return b, true
}

// follow records a change of the group, and forgets what no longer matters. Until its source was read, which is no
// change, the group can't change.
func (v *vetoes) follow(b basis, read bool, now time.Time) {
	if !read {
		return
	}
	if !reflect.DeepEqual(v.basis, b) {
		if v.known {
			v.changed = now
		}
		v.basis = b
	}
	v.known = true
	for c, r := range v.last {
		if now.Sub(r.Time) >= vetoFor {
			delete(v.last, c)
		}
	}
}

// holds reports whether a rejection is a veto: it is of the group as it is, also if the Pod is younger than that.
func (v *vetoes) holds(r Rejection, now time.Time) bool {
	return now.Sub(r.Time) < r.lasts() && (v.changed.IsZero() || r.Time.Sub(v.changed) >= settling || r.Created.After(v.changed))
}

// current returns the vetoes by class, nil if there are none.
func (v *vetoes) current(now time.Time) map[Class]Rejection {
	var out map[Class]Rejection
	for c, r := range v.last {
		if !v.holds(r, now) {
			continue
		}
		if out == nil {
			out = map[Class]Rejection{}
		}
		out[c] = r
	}
	return out
}

// add records a rejection, and returns whether it begins a veto. An old one does not hold any more: the
// autoscaler would have repeated it.
func (v *vetoes) add(c Class, r Rejection, now time.Time) bool {
	last, known := v.last[c]
	vetoed := known && v.holds(last, now)
	if now.Sub(r.Time) >= repeated || known && !r.Time.After(last.Time) {
		return false
	}
	if vetoed && r.Limited == last.Limited {
		r.Message = last.Message // a message that differs with each event would be a write of each session
	}
	if v.last == nil {
		v.last = map[Class]Rejection{}
	}
	v.last[c] = r
	return !vetoed && v.holds(r, now)
}

// Reject records that an autoscaler adds no node for a Pod of a class, and returns whether that is a change. It
// applies to all groups for which the autoscaler decides: it has considered all of them.
func (t *Tracker) Reject(c Class, r Rejection, now time.Time) (changed bool) {
	for _, g := range t.groups {
		if t.decides(r.By, g) && g.vetoes.add(c, r, now) {
			changed = true
		}
	}
	return changed
}

// decides reports whether an autoscaler adds the nodes of a group. Those of a group without a source are added by
// one that is not the source of another group.
func (t *Tracker) decides(by Autoscaler, g *group) bool {
	if own := g.source(); own != "" {
		return own == by
	}
	return !slices.ContainsFunc(t.groups, func(o *group) bool { return o.source() == by })
}

// Rejected reports whether the autoscaler of a group has decided not long ago to add no node for a class of Pods:
// it runs, and the group is not exhausted because such a Pod waits for a node.
func (t *Tracker) Rejected(name string, c Class, now time.Time) bool {
	at := slices.IndexFunc(t.groups, func(g *group) bool { return g.Name == name })
	if at < 0 {
		return false
	}
	r, ok := t.groups[at].vetoes.last[c]
	return ok && now.Sub(r.Time) < repeated
}
