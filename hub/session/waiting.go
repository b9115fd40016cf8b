package session

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/vdi-fleet/vdi-fleet/hub/queue"
)

// waiting is who waits for room, by what they ask for. Sessions that ask for the
// same are one class: when something happens that may help, each class is asked
// once how many of it fit now, and only so many are looked at again. So an event
// costs as much as there are classes, however many sessions wait; and of these a
// user and a namespace have no more than some, and a batch asks no more than some.
type waiting struct {
	mu       sync.Mutex
	sessions map[reconcile.Request]*waiter
	classes  map[string]*class
	// perUser and perNamespace count the classes that they began.
	perUser, perNamespace map[string]int
	// wave is the number of the last change that classes are asked about.
	wave uint64
	// calls are the sessions that a change has called and that have not had their
	// turn since.
	calls map[reconcile.Request]bool
}

const (
	// classesPerUser and classesPerNamespace are how many distinct requests of a
	// user in a namespace, and of a namespace, are asked about at every change. A
	// session beyond is only rechecked by time.
	classesPerUser      = 16
	classesPerNamespace = 512
	// classesABatch bounds how often one batch of changes takes the fleet's lock.
	classesABatch = 256
)

// waiter is a session that waits.
type waiter struct {
	uid    types.UID
	reason string
	rank   queue.Rank
	// key of what it asks; empty: no room in a member helps it.
	key string
	// class that it belongs to; nil: there is none, or there are too many.
	class *class
	// asked is since when it asks for the same.
	asked time.Time
}

// class of sessions that ask for the same.
type class struct {
	key string
	// namespace and user of the session that began it.
	namespace, user string
	// wave that it was last asked about.
	wave uint64
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
	news    *news
}

func (r *Reconciler) waiting() *waiting {
	r.lines.once.Do(r.makeLines)
	return r.lines.waiting
}

func (r *Reconciler) turns() *turns {
	r.lines.once.Do(r.makeLines)
	return r.lines.turns
}

func (r *Reconciler) news() *news {
	r.lines.once.Do(r.makeLines)
	return r.lines.news
}

func (r *Reconciler) makeLines() {
	r.lines.waiting, r.lines.turns, r.lines.news = newWaiting(), newTurns(r.Clock), newNews()
}

func newWaiting() *waiting {
	return &waiting{
		sessions: map[reconcile.Request]*waiter{}, classes: map[string]*class{},
		perUser: map[string]int{}, perNamespace: map[string]int{}, calls: map[reconcile.Request]bool{},
	}
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
	s.asked, s.key = now, key
	if old != nil {
		if old.uid == s.uid && old.reason == s.reason && old.key == key {
			s.asked = old.asked
		}
		w.drop(item, old)
	}
	if q != nil {
		if s.class = w.classOf(key, s.rank.Namespace, s.rank.User); s.class != nil {
			s.class.question = q
			s.class.line.Push(item, s.rank)
		}
	}
	w.sessions[item] = &s
	return s.asked
}

// classOf is the class of a request, which is begun if need be; nil: the user or
// the namespace has too many. The caller holds the lock.
func (w *waiting) classOf(key, namespace, user string) *class {
	if c := w.classes[key]; c != nil {
		return c
	}
	if w.crowd(namespace, user) != "" {
		return nil
	}
	c := &class{key: key, namespace: namespace, user: namespace + "/" + user, wave: w.wave, line: queue.New[reconcile.Request]()}
	w.classes[key] = c
	w.perUser[c.user]++
	w.perNamespace[c.namespace]++
	return c
}

// crowd is who has as many distinct requests as are asked about, with how many;
// empty: nobody. The caller holds the lock.
func (w *waiting) crowd(namespace, user string) string {
	switch {
	case w.perUser[namespace+"/"+user] >= classesPerUser:
		return fmt.Sprintf("%d distinct requests of user %s in namespace %s", classesPerUser, user, namespace)
	case w.perNamespace[namespace] >= classesPerNamespace:
		return fmt.Sprintf("%d distinct requests of namespace %s", classesPerNamespace, namespace)
	}
	return ""
}

// crowdedOut is the crowd for which a session's request is not asked about at
// every change; empty: it is.
func (w *waiting) crowdedOut(item reconcile.Request, rank queue.Rank, q *question) string {
	key := q.key()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.classes[key] != nil {
		return ""
	}
	if old := w.sessions[item]; old != nil && old.class != nil && old.class.line.Len() == 1 {
		return "" // it leaves the class that it has to itself
	}
	return w.crowd(rank.Namespace, rank.User)
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
	if s.class.line.Len() > 0 {
		return
	}
	delete(w.classes, s.class.key)
	uncount(w.perUser, s.class.user)
	uncount(w.perNamespace, s.class.namespace)
}

// asking are the classes as they are now: what each asks, and how many it is.
type asking struct {
	class    *class
	question *question
	size     int
}

// begin a wave: something has changed that every class is to be asked about.
func (w *waiting) begin() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wave++
	return w.wave
}

// asking are classes that were not asked in this wave: those that were not asked
// for longest, and at most as many as a batch takes. more: there are others.
func (w *waiting) asking(wave uint64) (out []asking, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var due []*class
	for _, c := range w.classes {
		if c.wave < wave {
			due = append(due, c)
		}
	}
	if more = len(due) > classesABatch; more {
		slices.SortFunc(due, func(a, b *class) int { return cmp.Compare(a.wave, b.wave) })
		due = due[:classesABatch]
	}
	for _, c := range due {
		c.wave = wave
		out = append(out, asking{c, c.question, c.line.Len()})
	}
	return out, more
}

// uncount takes one off, and forgets who has none.
func uncount(counts map[string]int, of string) {
	if counts[of]--; counts[of] <= 0 {
		delete(counts, of)
	}
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

// call the first n of a class.
func (w *waiting) call(c *class, n int64, now time.Time) []called {
	out := w.first(c, n, now)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range out {
		w.calls[one.item] = true
	}
	return out
}

// answered says that a session has had the turn for which it was called, if it was.
func (w *waiting) answered(item reconcile.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.calls, item)
}

// disputed is the class of a request, and its size, while sessions of it have been
// called by a change, or are about to be; nil: none are, or the session itself was
// called. unread: there is a change that no class was asked about.
func (w *waiting) disputed(item reconcile.Request, key string, unread bool) (*class, int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.classes[key]
	if c == nil || w.calls[item] {
		return nil, 0
	}
	size := int64(c.line.Len())
	if unread || c.wave < w.wave {
		return c, size
	}
	for other := range w.calls {
		if c.line.Has(other) {
			return c, size
		}
	}
	return nil, 0
}

// has is whether a session waits.
func (w *waiting) has(item reconcile.Request) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sessions[item] != nil
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
