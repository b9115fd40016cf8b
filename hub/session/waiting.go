package session

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/hub/queue"
)

// waiting is who waits for room, by what they ask for. Sessions that ask for the
// same are one class: when something happens that may help, each class is asked
// once how many of it fit now, and only so many are looked at again. So an event
// costs as much as there are classes, however many sessions wait.
type waiting struct {
	mu       sync.Mutex
	sessions map[reconcile.Request]*waiter
	classes  map[string]*class
}

// waiter is a session that waits.
type waiter struct {
	uid    types.UID
	reason string
	rank   queue.Rank
	// class that it belongs to; nil: no room in a member helps it.
	class *class
	// asked is since when it asks for the same.
	asked time.Time
}

// class of sessions that ask for the same.
type class struct {
	key string
	// question as the last of them asked it; never changed, only replaced.
	question *question
	// line is their order.
	line *queue.Queue[reconcile.Request]
}

// lines are who waits, and in which order the workers take them up: made when
// they are first asked for.
type lines struct {
	once    sync.Once
	waiting *waiting
	turns   *turns
}

func (r *Reconciler) waiting() *waiting {
	r.lines.once.Do(r.makeLines)
	return r.lines.waiting
}

func (r *Reconciler) turns() *turns {
	r.lines.once.Do(r.makeLines)
	return r.lines.turns
}

func (r *Reconciler) makeLines() { r.lines.waiting, r.lines.turns = newWaiting(), newTurns(r.Clock) }

func newWaiting() *waiting {
	return &waiting{sessions: map[reconcile.Request]*waiter{}, classes: map[string]*class{}}
}

// add notes that a session waits, and returns since when it has been asking for
// the same.
func (w *waiting) add(item reconcile.Request, s waiter, q *question, now time.Time) time.Time {
	key := ""
	if q != nil {
		key = q.key()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.sessions[item]
	s.asked = now
	if old != nil {
		if old.uid == s.uid && old.reason == s.reason && (old.class == nil) == (q == nil) && (q == nil || old.class.key == key) {
			s.asked = old.asked
		}
		w.drop(item, old)
	}
	if q != nil {
		c := w.classes[key]
		if c == nil {
			c = &class{key: key, line: queue.New[reconcile.Request]()}
			w.classes[key] = c
		}
		c.question, s.class = q, c
		c.line.Push(item, s.rank)
	}
	w.sessions[item] = &s
	return s.asked
}

// strike off a session that waits no more. served: it has got a place.
func (w *waiting) strike(item reconcile.Request, served bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.sessions[item]
	if old == nil {
		return
	}
	if served && old.class != nil {
		old.class.line.Charge(old.rank, now)
	}
	w.drop(item, old)
}

// drop takes a session out. A class that is empty is forgotten. The caller holds
// the lock.
func (w *waiting) drop(item reconcile.Request, s *waiter) {
	delete(w.sessions, item)
	if s.class == nil {
		return
	}
	s.class.line.Remove(item)
	if s.class.line.Len() == 0 {
		delete(w.classes, s.class.key)
	}
}

// asking are the classes as they are now: what each asks, and how many it is.
type asking struct {
	class    *class
	question *question
	size     int
}

func (w *waiting) asking() []asking {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := make([]asking, 0, len(w.classes))
	for _, c := range w.classes {
		out = append(out, asking{c, c.question, c.line.Len()})
	}
	return out
}

// called is a session of a class whose turn it is to be looked at again.
type called struct {
	item reconcile.Request
	uid  types.UID
}

// first are the first n of a class, whose order stays as it is.
func (w *waiting) first(c *class, n int64, now time.Time) []called {
	w.mu.Lock()
	defer w.mu.Unlock()
	items := c.line.First(int(min(n, int64(c.line.Len()))), now)
	out := make([]called, 0, len(items))
	for _, item := range items {
		out = append(out, called{item, w.sessions[item].uid})
	}
	return out
}

// everybody who waits for room, or for a member to come, and asks what is true of.
func (w *waiting) everybody(of func(*question) bool) []reconcile.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []reconcile.Request
	for _, c := range w.classes {
		if !of(c.question) {
			continue
		}
		for item := range c.line.All() {
			out = append(out, item)
		}
	}
	return out
}

// count is how many sessions wait, by reason, how many different questions they
// ask, and since when the longest waits.
func (w *waiting) count() (reasons map[string]int, classes int, oldest time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	reasons = map[string]int{}
	for _, s := range w.sessions {
		reasons[s.reason]++
		if oldest.IsZero() || s.rank.Since.Before(oldest) {
			oldest = s.rank.Since
		}
	}
	return reasons, len(w.classes), oldest
}
