package queue

import (
	"time"
)

// level is what waits at one priority.
type level struct {
	priority   int32
	namespaces ring
}

func newLevel(priority int32) *level { return &level{priority: priority, namespaces: newRing()} }

// shares that a rank's turn is charged to.
func (l *level) shares(r *Rank) (namespace, user *share) {
	n := l.namespaces.share(r.Namespace)
	if n.users == nil {
		users := newRing()
		n.users = &users
	}
	return n, n.users.share(r.User)
}

func (l *level) push(e *entry) {
	n, u := l.shares(&e.rank)
	u.line.push(e)
	n.users.queued(u)
	l.namespaces.queued(n)
}

func (l *level) remove(e *entry) {
	n, u := l.shares(&e.rank)
	u.line.remove(e)
	n.users.queued(u)
	l.namespaces.queued(n)
}

// pop gives the first of the first user of the first namespace its turn.
func (l *level) pop() (*entry, Turn) {
	n := l.namespaces.first()
	u := n.users.first()
	e := u.line.pop()
	n.users.take(u)
	l.namespaces.take(n)
	return e, Turn{level: l, namespace: n, user: u}
}

// lend gives the first its turn, until it is put back and all is as before. What
// was lent last is put back first.
func (l *level) lend() (e *entry, putBack func()) {
	n := l.namespaces.first()
	u := n.users.first()
	ofUser, ofNamespace := u.account, n.account
	users, namespaces := n.users.turn, l.namespaces.turn
	e, _ = l.pop()
	return e, func() {
		u.line.push(e)
		n.users.giveBack(u, ofUser, users)
		l.namespaces.giveBack(n, ofNamespace, namespaces)
	}
}

func (l *level) settle(t Turn, served bool, now time.Time) {
	t.namespace.users.settle(t.user, served, now)
	l.namespaces.settle(t.namespace, served, now)
}

func (l *level) charge(r Rank, now time.Time) {
	n, u := l.shares(&r)
	u.flying++
	n.flying++
	n.users.flying++
	l.namespaces.flying++
	l.settle(Turn{level: l, namespace: n, user: u}, true, now)
}

// age is by how many steps the level is raised: for as long as its next in line
// has waited, since its namespace was last served here. While a turn of that
// namespace is not settled it is not raised: one at a time.
func (l *level) age(now time.Time) int64 {
	n := l.namespaces.first()
	if n.flying > 0 {
		return 0
	}
	since := n.head().rank.Since
	if n.last.After(since) {
		since = n.last
	}
	return max(0, int64(now.Sub(since)/agingStep))
}

// forgettable is whether nothing waits at the level and nobody is owed anything
// for what was served there.
func (l *level) forgettable() bool { return l.namespaces.idle() }
