package checker

import (
	"slices"
	"testing"
)

func TestHistories(t *testing.T) {
	for _, tc := range histories {
		t.Run(tc.name, func(t *testing.T) {
			h := newHistory()
			tc.play(h)
			h.pass(long)
			h.pass(long)
			var got []int
			for _, v := range h.found {
				got = append(got, v.Guarantee)
			}
			slices.Sort(got)
			if !slices.Equal(got, tc.want) {
				t.Errorf("guarantees violated: %v, want %v\n%v", got, tc.want, h.found)
			}
			if h.observed == 0 {
				t.Error("the checker counted nothing")
			}
		})
	}
}

func TestViolationIsReportedOnce(t *testing.T) {
	h := newHistory()
	h.run()
	for range 3 {
		h.session(SessionState{Epoch: 1, Cluster: "b", Placed: 1})
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1})
	}
	if len(h.found) != 1 {
		t.Errorf("%d violations, want one: %v", len(h.found), h.found)
	}
}
