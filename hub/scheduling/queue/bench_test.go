package queue

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkDispatch measures one Push and one dispatch with 5,000 queued items.
func BenchmarkDispatch(b *testing.B) {
	for _, namespaces := range []int{1, 100, 5000} {
		b.Run(fmt.Sprintf("%d namespaces", namespaces), func(b *testing.B) {
			q := &Queue[int]{}
			push := func(i int) {
				q.Push(i, at(fmt.Sprint("n", i%namespaces), fmt.Sprint("u", i%7), int32(i%3), i))
			}
			for i := range 5000 {
				push(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				now := start.Add(time.Duration(i) * time.Second)
				push(5000 + i)
				_, turn, _ := q.Pop(now)
				q.Finish(turn, i%2 == 0, now)
			}
		})
	}
}
