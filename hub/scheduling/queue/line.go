package queue

import (
	"cmp"
	"container/heap"
)

// compare orders two entries by how long they have waited.
func compare(a, b *entry) int {
	return cmp.Or(a.rank.Since.Compare(b.rank.Since), cmp.Compare(a.arrival, b.arrival))
}

// line is what waits of one user at one priority: a heap by age.
type line []*entry

func (l *line) head() *entry {
	if len(*l) == 0 {
		return nil
	}
	return (*l)[0]
}

func (l *line) push(e *entry)   { heap.Push(l, e) }
func (l *line) remove(e *entry) { heap.Remove(l, e.index) }

func (l *line) pop() *entry {
	e, _ := heap.Pop(l).(*entry)
	return e
}

// Len, Less, Swap, Push and Pop make the line a heap (heap.Interface).
func (l *line) Len() int { return len(*l) }

func (l *line) Less(i, j int) bool { return compare((*l)[i], (*l)[j]) < 0 }

func (l *line) Swap(i, j int) {
	(*l)[i], (*l)[j] = (*l)[j], (*l)[i]
	(*l)[i].index, (*l)[j].index = i, j
}

// Push is for heap alone.
func (l *line) Push(x any) {
	e, _ := x.(*entry)
	e.index = len(*l)
	*l = append(*l, e)
}

// Pop is for heap alone.
func (l *line) Pop() any {
	e := (*l)[len(*l)-1]
	(*l)[len(*l)-1] = nil
	*l = (*l)[:len(*l)-1]
	return e
}
