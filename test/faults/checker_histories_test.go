package faults

import (
	"slices"
	"testing"
)

func TestTheCheckerTellsHistoriesApart(t *testing.T) {
	for _, tc := range histories {
		t.Run(tc.name, func(t *testing.T) {
			h := newTold()
			tc.tell(h)
			h.pass(long)
			h.pass(long)
			var got []int
			for _, v := range h.broken {
				got = append(got, v.Promise)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("promises broken: %v, want %v\n%v", got, tc.want, h.broken)
			}
			if h.seen == 0 {
				t.Error("the checker counted nothing")
			}
		})
	}
}

func TestTheCheckerNamesAViolationOnce(t *testing.T) {
	h := newTold()
	h.runs()
	for range 3 {
		h.session(sessionFact{Epoch: 1, Cluster: "b", Placed: 1})
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1})
	}
	if len(h.broken) != 1 {
		t.Errorf("%d violations, want one: %v", len(h.broken), h.broken)
	}
}
