package scheduling

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/queue"
)

const (
	// classesPerUser and classesPerNamespace are how many distinct requests of a user in
	// a namespace, and of a namespace, are evaluated at every event. Sessions beyond the
	// limits are only rechecked by time.
	classesPerUser      = 16
	classesPerNamespace = 512
	// classesPerBatch bounds how often one batch of events acquires the fleet's lock.
	classesPerBatch = 256
)

// pending holds the pending sessions, by class.
type pending struct {
	classes map[string]*class
	// perUser and perNamespace count the classes by the user and namespace of their first
	// session.
	perUser, perNamespace map[string]int
	// wave is the number of the current wave.
	wave uint64
}

// class is an equivalence class of pending sessions: their requests fit in the same members, or the same cap of their
// policy keeps them pending.
type class struct {
	key string
	// capped is set if a cap keeps its sessions pending, and not capacity.
	capped bool
	// namespace and user of its first session.
	namespace, user string
	// wave and seen are the wave and the change for which it was last evaluated.
	wave, seen uint64
	// request is the last one of any of its sessions.
	request *Request
	// order of its sessions.
	order queue.Queue[*entry]
	// full is set if the last decision on one of its sessions was that no member fits, and no capacity for it was
	// found since.
	full bool
	// requeued is the number of its requeued sessions without a decision; yielding are
	// those that are decided on after them.
	requeued int
	yielding []*entry
}

func newPending() pending {
	return pending{classes: map[string]*class{}, perUser: map[string]int{}, perNamespace: map[string]int{}}
}

// stopYielding records that a session no longer waits for others of its class.
func (c *class) stopYielding(e *entry) {
	if c != nil {
		c.yielding = slices.DeleteFunc(c.yielding, func(other *entry) bool { return other == e })
	}
}

// add adds a session to the class of its request, unless its user or namespace has too many. capped is set if a cap
// keeps it pending.
func (p *pending) add(e *entry, capped bool) {
	if e.class != nil && e.class.capped != capped {
		p.remove(e)
	}
	if e.class == nil {
		e.class = p.classOf(e, capped)
	}
	if e.class != nil {
		e.class.request = e.request
		e.class.order.Push(e, e.rank)
	}
}

// decided adds a session that was decided on: no member fits it, or a cap keeps it pending.
func (p *pending) decided(e *entry, capped bool) {
	p.add(e, capped)
	if e.class != nil {
		e.class.full = !capped
	}
}

// joins adds a session whose status shows why no member fits it to its class without a decision, if others of the class
// are pending since one. Every change is evaluated for all of them, and capacity that was found since is for sessions
// that are decided on. It reports whether it did.
func (p *pending) joins(e *entry) bool {
	if !e.shown || e.requeued || e.class != nil {
		return false
	}
	c := p.classes[e.request.class()]
	if c == nil || !c.full {
		return false
	}
	p.add(e, false)
	return true
}

// classOf returns the class of a session's request, and creates it if necessary. It returns
// nil if there are too many.
func (p *pending) classOf(e *entry, capped bool) *class {
	key := e.request.class()
	if capped {
		key = e.request.cappedClass()
	}
	if c := p.classes[key]; c != nil {
		return c
	}
	if p.limit(e) != "" {
		return nil
	}
	c := &class{
		key: key, capped: capped, namespace: e.rank.Namespace, user: e.rank.Namespace + "/" + e.rank.User, wave: p.wave,
	}
	p.classes[key] = c
	p.perUser[c.user]++
	p.perNamespace[c.namespace]++
	return c
}

// limit describes the limit of distinct requests that the session's user or namespace has
// reached, empty if there is none.
func (p *pending) limit(e *entry) string {
	namespace, user := e.rank.Namespace, e.rank.User
	switch {
	case p.perUser[namespace+"/"+user] >= classesPerUser:
		return fmt.Sprintf("%d distinct requests of user %s in namespace %s", classesPerUser, user, namespace)
	case p.perNamespace[namespace] >= classesPerNamespace:
		return fmt.Sprintf("%d distinct requests of namespace %s", classesPerNamespace, namespace)
	}
	return ""
}

// isFor reports whether a request belongs to the class.
func (c *class) isFor(r *Request) bool {
	if c.capped {
		return c.key == r.cappedClass()
	}
	return c.key == r.class()
}

// remove removes a session from its class, and the class if it is then empty.
func (p *pending) remove(e *entry) {
	c := e.class
	if c == nil {
		return
	}
	e.class = nil
	c.order.Remove(e)
	c.stopYielding(e)
	if c.order.Len() > 0 {
		return
	}
	delete(p.classes, c.key)
	uncount(p.perUser, c.user)
	uncount(p.perNamespace, c.namespace)
}

// uncount decrements a count, and removes it at zero.
func uncount(counts map[string]int, of string) {
	if counts[of]--; counts[of] <= 0 {
		delete(counts, of)
	}
}

// lookup is a class to be evaluated: its request, and how many sessions it has.
type lookup struct {
	class   *class
	request *Request
	size    int64
}

// due returns at most classesPerBatch classes that were not evaluated for a wave, those
// that were evaluated longest ago; more reports whether there are others.
func (p *pending) due(wave, seen uint64) (out []lookup, more bool) {
	var due []*class
	for _, c := range p.classes {
		if c.wave < wave {
			due = append(due, c)
		}
	}
	if more = len(due) > classesPerBatch; more {
		slices.SortFunc(due, func(a, b *class) int { return cmp.Compare(a.wave, b.wave) })
		due = due[:classesPerBatch]
	}
	for _, c := range due {
		c.wave, c.seen = wave, seen
		request := c.request
		if !c.capped {
			request = request.ofAnyUser()
		}
		out = append(out, lookup{c, request, int64(c.order.Len())})
	}
	return out, more
}

// first returns the first n sessions of a class, without dispatching them.
func (c *class) first(n int64, now time.Time) []*entry {
	return c.order.First(int(min(n, int64(c.order.Len()))), now)
}

// requeue queues pending sessions of the class because an event may help them.
func (c *class) requeue(sessions []*entry, event string, queue func(*entry)) {
	c.full = c.full && event == EventRecheck
	for _, e := range sessions {
		switch e.state {
		case waiting:
			Requeued(event, 1)
			e.requeued = true
			c.requeued++
			queue(e)
		case answered:
			e.outdated = true // it is queued once its controller has the answer
		}
	}
}

// passOn requeues another session of the class in place of one that was requeued, if a cap keeps that pending.
func (e *entry) passOn(capped bool, now time.Time, queue func(*entry)) {
	if c := e.class; e.requeued && capped && !c.capped {
		c.requeue(c.first(int64(c.requeued)+1, now), EventCapacity, queue)
	}
}

// requeueDone records that a requeued session is decided on or withdrawn. Once this is so
// for all of a class, the sessions that yield to them are queued.
func (c *class) requeueDone(e *entry, queue func(*entry)) {
	if !e.requeued {
		return
	}
	e.requeued = false
	if c.requeued--; c.requeued > 0 {
		return
	}
	for _, other := range c.yielding {
		queue(other)
	}
	c.yielding = nil
}
