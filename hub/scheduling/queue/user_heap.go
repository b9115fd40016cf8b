package queue

import (
	"cmp"
	"container/heap"
)

// compare orders two entries by how long they have waited.
func compare(a, b *entry) int {
	return cmp.Or(a.rank.Since.Compare(b.rank.Since), cmp.Compare(a.arrival, b.arrival))
}

// userHeap holds the items of one user at one priority, by age.
type userHeap []*entry

func (l *userHeap) head() *entry {
	if len(*l) == 0 {
		return nil
	}
	return (*l)[0]
}

func (l *userHeap) push(e *entry)   { heap.Push(l, e) }
func (l *userHeap) remove(e *entry) { heap.Remove(l, e.index) }

func (l *userHeap) pop() *entry {
	e, _ := heap.Pop(l).(*entry)
	return e
}

// Len, with Less, Swap, Push and Pop, implements heap.Interface.
func (l *userHeap) Len() int { return len(*l) }

func (l *userHeap) Less(i, j int) bool { return compare((*l)[i], (*l)[j]) < 0 }

func (l *userHeap) Swap(i, j int) {
	(*l)[i], (*l)[j] = (*l)[j], (*l)[i]
	(*l)[i].index, (*l)[j].index = i, j
}

// Push implements heap.Interface.
func (l *userHeap) Push(x any) {
	e, _ := x.(*entry)
	e.index = len(*l)
	*l = append(*l, e)
}

// Pop implements heap.Interface.
func (l *userHeap) Pop() any {
	e := (*l)[len(*l)-1]
	(*l)[len(*l)-1] = nil
	*l = (*l)[:len(*l)-1]
	return e
}
