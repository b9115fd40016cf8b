package scheduling

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/hub/scheduling/queue"
)

const (
	// classesPerUser and classesPerNamespace are how many distinct requests of a user in a
	// namespace, and of a namespace, are looked up at every event. A session beyond is only
	// decided on again by time.
	classesPerUser      = 16
	classesPerNamespace = 512
	// classesPerBatch bounds how often one batch of events takes the fleet's lock.
	classesPerBatch = 256
)

// pending are the sessions that no member takes, by class.
type pending struct {
	classes map[string]*class
	// perUser and perNamespace count the classes that they began.
	perUser, perNamespace map[string]int
	// wave numbers the events that the classes are looked up for.
	wave uint64
}

// class of pending sessions that ask for the same.
type class struct {
	key string
	// namespace and user of the session that began it.
	namespace, user string
	// wave that it was last looked up for, and events it was last asked after.
	wave, seen uint64
	// request as one of them asked it last.
	request *Request
	// line is their order.
	line *queue.Queue[*entry]
	// called is the number of its sessions that an event has queued and that are not decided
	// on yet; yielding are those that let them go first.
	called   int
	yielding []*entry
}

func newPending() pending {
	return pending{classes: map[string]*class{}, perUser: map[string]int{}, perNamespace: map[string]int{}}
}

// touch keeps a session's rank in its class.
func (c *class) touch(e *entry) {
	if c != nil {
		c.line.Touch(e, e.rank)
	}
}

// decide notes that a session does not wait for others of its class any more.
func (c *class) decide(e *entry) {
	if c != nil {
		c.yielding = slices.DeleteFunc(c.yielding, func(other *entry) bool { return other == e })
	}
}

// join puts a session into the class of its request, unless its user or namespace has too
// many.
func (p *pending) join(e *entry) {
	if e.class == nil {
		e.class = p.classOf(e)
	}
	if e.class != nil {
		e.class.request = e.request
		e.class.line.Push(e, e.rank)
	}
}

// classOf returns the class of a session's request, which is begun if need be; nil: there are
// too many.
func (p *pending) classOf(e *entry) *class {
	key := e.request.class()
	if c := p.classes[key]; c != nil {
		return c
	}
	if p.crowd(e) != "" {
		return nil
	}
	c := &class{
		key: key, namespace: e.rank.Namespace, user: e.rank.Namespace + "/" + e.rank.User, wave: p.wave, line: queue.New[*entry](),
	}
	p.classes[key] = c
	p.perUser[c.user]++
	p.perNamespace[c.namespace]++
	return c
}

// crowd says who has as many distinct requests as are looked up, with how many; empty:
// neither the session's user nor its namespace.
func (p *pending) crowd(e *entry) string {
	namespace, user := e.rank.Namespace, e.rank.User
	switch {
	case p.perUser[namespace+"/"+user] >= classesPerUser:
		return fmt.Sprintf("%d distinct requests of user %s in namespace %s", classesPerUser, user, namespace)
	case p.perNamespace[namespace] >= classesPerNamespace:
		return fmt.Sprintf("%d distinct requests of namespace %s", classesPerNamespace, namespace)
	}
	return ""
}

// leave takes a session out of its class. A class that is empty is forgotten.
func (p *pending) leave(e *entry) {
	c := e.class
	if c == nil {
		return
	}
	e.class = nil
	c.line.Remove(e)
	c.decide(e)
	if c.line.Len() > 0 {
		return
	}
	delete(p.classes, c.key)
	uncount(p.perUser, c.user)
	uncount(p.perNamespace, c.namespace)
}

// uncount takes one off, and forgets who has none.
func uncount(counts map[string]int, of string) {
	if counts[of]--; counts[of] <= 0 {
		delete(counts, of)
	}
}

// lookup is a class to be looked up: what it asks, and how many sessions it has.
type lookup struct {
	class   *class
	request *Request
	size    int64
}

// due returns classes that were not looked up for a wave: those that were not for longest,
// and at most as many as a batch takes. more: there are others.
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
		out = append(out, lookup{c, c.request, int64(c.line.Len())})
	}
	return out, more
}

// first returns the first n of a class, whose order stays as it is.
func (c *class) first(n int64, now time.Time) []*entry {
	return c.line.First(int(min(n, int64(c.line.Len()))), now)
}

// call queues pending sessions of the class again, because an event may help them.
func (c *class) call(sessions []*entry, event string, queue func(*entry)) {
	for _, e := range sessions {
		switch e.state {
		case waiting:
			Requeued(event, 1)
			e.called = true
			c.called++
			queue(e)
		case answered:
			e.outdated = true // it is queued once its controller has the answer
		}
	}
}

// uncall notes that a session that was called is decided on, or is not to be any more. Once
// all of a class are, those that let them go first are queued.
func (c *class) uncall(e *entry, queue func(*entry)) {
	if !e.called {
		return
	}
	e.called = false
	if c.called--; c.called > 0 {
		return
	}
	for _, other := range c.yielding {
		queue(other)
	}
	c.yielding = nil
}
