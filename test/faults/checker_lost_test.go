package faults

import (
	"strings"
	"testing"
	"time"
)

// supersedes is a session of a mode in member a that is placed in b without waiting
// for its stop, after a was away for a time.
func supersedes(mode string, away time.Duration) func(*told) {
	return func(h *told) {
		h.logged, h.patience = true, patience{restart: 90 * time.Second, fence: 290 * time.Second}
		h.runs()
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1, Mode: mode, PodReady: true})
		if away > 0 {
			h.took(h.now, "a")
			h.sight("a", false)
		}
		h.pass(away)
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}, Superseded: map[string]int64{"a": 1}})
		h.assignment(assignmentFact{Cluster: "b", Epoch: 2, Mode: mode})
		h.pod("b", "p2", 2)
	}
}

var losses = []struct {
	name string
	tell func(*told)
	want string // of what is said; "": no promise is broken
}{
	{"Restart after its wait", supersedes("Restart", 2*time.Minute), ""},
	{"Restart before its wait", supersedes("Restart", time.Minute), "sooner than 1m30s"},
	{"Restart for nothing", supersedes("Restart", 0), "sooner than 1m30s"},
	{"Fence after R", supersedes("Fence", 5*time.Minute), ""},
	{"Fence before R", supersedes("Fence", 2*time.Minute), "sooner than 4m50s"},
	{"Hold, however late", supersedes("Hold", time.Hour), "has not confirmed its stop"},
	{"Hold by an operator's word", func(h *told) {
		h.word["a"] = true
		supersedes("Hold", time.Minute)(h)
	}, ""},
	{"Fence early by an operator's word", func(h *told) {
		h.word["a"] = true
		supersedes("Fence", time.Minute)(h)
	}, ""},
	{"a word that was of an earlier loss", func(h *told) {
		h.word["a"] = true
		h.took(h.now, "a")
		h.together()
		supersedes("Hold", time.Minute)(h)
	}, "has not confirmed its stop"},
	{"said again after it was said", func(h *told) {
		supersedes("Restart", 2*time.Minute)(h)
		h.together()
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2, PodReady: false, Releasing: map[string]int64{"a": 1}, Superseded: map[string]int64{"a": 1}})
	}, ""},
	{"going back to what was left behind", func(h *told) {
		supersedes("Restart", 2*time.Minute)(h)
		h.session(sessionFact{Epoch: 3, Cluster: "a", Placed: 3, Releasing: map[string]int64{"b": 2}, Superseded: map[string]int64{"b": 2}})
	}, ""},
	{"going on to a third for nothing", func(h *told) {
		supersedes("Restart", 2*time.Minute)(h)
		h.session(sessionFact{Epoch: 3, Cluster: "c", Placed: 3, Releasing: map[string]int64{"a": 1, "b": 2}, Superseded: map[string]int64{"a": 1, "b": 2}})
	}, "sooner than 1m30s"},
	{"a Pod that a power cut took", func(h *told) {
		h.runs()
		h.powerCut(h.now, "a")
		h.podless("p1")
	}, ""},
	{"a Pod that goes as its member's lease is over", func(h *told) {
		h.runs()
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1, Mode: "Fence", Lapsed: true})
		h.podless("p1")
	}, ""},
	{"what a member holds that is gone for good", func(h *told) {
		supersedes("Restart", 2*time.Minute)(h)
		h.gone["a"] = true
		h.sight("a", true)
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2})
	}, ""},
	{"a home that is left behind in a member is collected", func(h *told) {
		h.word["a"] = true
		supersedes("Hold", time.Minute)(h)
		h.homeGone(h.now, homeFact{Cluster: "a", UID: "h", Name: "home", Session: "s"})
	}, ""},
	{"a home goes where its session is now", func(h *told) {
		h.word["a"] = true
		supersedes("Hold", time.Minute)(h)
		h.homeGone(h.now, homeFact{Cluster: "b", UID: "h", Name: "home", Session: "s"})
	}, "nothing asked for it"},
}

func TestTheCheckerTellsLossesApart(t *testing.T) {
	for _, tc := range losses {
		t.Run(tc.name, func(t *testing.T) {
			h := newTold()
			tc.tell(h)
			h.pass(long)
			h.pass(long)
			switch {
			case tc.want == "" && len(h.broken) > 0:
				t.Errorf("no promise is broken, and it says %v", h.broken)
			case tc.want != "" && (len(h.broken) != 1 || !strings.Contains(h.broken[0].What, tc.want)):
				t.Errorf("want one violation that says %q, got %v", tc.want, h.broken)
			}
		})
	}
}
