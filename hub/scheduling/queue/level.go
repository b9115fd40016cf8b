package queue

import (
	"container/heap"
	"time"
)

// level holds the items of one priority.
type level struct {
	priority   int32
	namespaces fairShares
}

// shares returns the shares that a rank's dispatch is charged to.
func (l *level) shares(r *Rank) (namespace, user *share) {
	n := l.namespaces.share(r.Namespace)
	if n.users == nil {
		users := newFairShares()
		n.users = &users
	}
	return n, n.users.share(r.User)
}

func (l *level) push(e *entry) {
	n, u := l.shares(&e.rank)
	heap.Push(&u.items, e)
	n.users.queued(u)
	l.namespaces.queued(n)
}

func (l *level) remove(e *entry) {
	n, u := l.shares(&e.rank)
	heap.Remove(&u.items, e.index)
	n.users.queued(u)
	l.namespaces.queued(n)
}

// pop dispatches the first item of the first user of the first namespace.
func (l *level) pop() (*entry, Dispatch) {
	n := l.namespaces.first()
	u := n.users.first()
	e, _ := heap.Pop(&u.items).(*entry)
	n.users.charge(u)
	l.namespaces.charge(n)
	return e, Dispatch{level: l, namespace: n, user: u}
}

// peek dispatches the first item, and returns it; undo restores the previous state. The last
// peek is undone first.
func (l *level) peek() (e *entry, undo func()) {
	n := l.namespaces.first()
	u := n.users.first()
	ofUser, ofNamespace := u.account, n.account
	users, namespaces := n.users.virtualTime, l.namespaces.virtualTime
	e, _ = l.pop()
	return e, func() {
		heap.Push(&u.items, e)
		n.users.undo(u, ofUser, users)
		l.namespaces.undo(n, ofNamespace, namespaces)
	}
}

func (l *level) finish(d Dispatch, served bool, now time.Time) {
	d.namespace.users.finish(d.user, served, now)
	l.namespaces.finish(d.namespace, served, now)
}

func (l *level) charge(r Rank, now time.Time) {
	n, u := l.shares(&r)
	u.inFlight++
	n.inFlight++
	n.users.inFlight++
	l.namespaces.inFlight++
	l.finish(Dispatch{level: l, namespace: n, user: u}, true, now)
}

// age returns by how many steps the level is raised: one for each agingStep that its next
// item has waited since its namespace was last served here. It is zero while a dispatch of
// that namespace is not finished, so that one item is dispatched at a time.
func (l *level) age(now time.Time) int64 {
	n := l.namespaces.first()
	if n.inFlight > 0 {
		return 0
	}
	since := n.head().rank.Since
	if n.last.After(since) {
		since = n.last
	}
	return max(0, int64(now.Sub(since)/agingStep))
}

// removable reports whether the level has neither items nor shares.
func (l *level) removable() bool { return len(l.namespaces.shares) == 0 }
