package queue

// ranked is an item of a rankedHeap.
type ranked[T any] interface {
	// before reports whether the item comes before another.
	before(T) bool
	// setIndex records the item's index in the heap, -1 outside of it.
	setIndex(int)
}

// rankedHeap is a heap whose items know their index, for heap.Fix and heap.Remove.
type rankedHeap[T ranked[T]] []T

// Len, with Less, Swap, Push and Pop, implements heap.Interface.
func (h rankedHeap[T]) Len() int { return len(h) }

func (h rankedHeap[T]) Less(i, j int) bool { return h[i].before(h[j]) }

func (h rankedHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].setIndex(i)
	h[j].setIndex(j)
}

// Push implements heap.Interface.
func (h *rankedHeap[T]) Push(x any) {
	item, _ := x.(T)
	item.setIndex(len(*h))
	*h = append(*h, item)
}

// Pop implements heap.Interface.
func (h *rankedHeap[T]) Pop() any {
	last := len(*h) - 1
	item := (*h)[last]
	clear((*h)[last:])
	*h = (*h)[:last]
	item.setIndex(-1)
	return item
}
