package checker

import (
	"strings"
	"testing"
	"time"
)

// supersedes returns a history that places a session of a mode in member b without waiting for its
// stop in a, after a was away for a time.
func supersedes(mode string, away time.Duration) func(*history) {
	return func(h *history) {
		h.containerLogs, h.minimum = true, MinimumOutage{Restart: 90 * time.Second, Fence: 290 * time.Second}
		h.run()
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Mode: mode, PodReady: true})
		if away > 0 {
			h.RecordOutage(h.now, "a")
			h.SetReachable("a", false)
		}
		h.pass(away)
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}, Superseded: map[string]int64{"a": 1}})
		h.assignment(AssignmentState{Cluster: "b", Epoch: 2, Mode: mode})
		h.pod("b", "p2", 2)
	}
}

// fenced returns a history in which a Pod of mode Fence goes after its member was away for a time, of which no
// status shows the cause.
func fenced(away time.Duration) func(*history) {
	return func(h *history) {
		h.minimum = MinimumOutage{Lease: 180 * time.Second}
		h.run()
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Mode: "Fence", PodReady: true})
		h.RecordOutage(h.now, "a")
		h.pass(away)
		h.podDeleted("p1")
	}
}

var losses = []struct {
	name string
	play func(*history)
	want string // in the message; "" for no violation
}{
	{"Restart after its wait", supersedes("Restart", 2*time.Minute), ""},
	{"Restart before its wait", supersedes("Restart", time.Minute), "sooner than 1m30s"},
	{"Restart for nothing", supersedes("Restart", 0), "sooner than 1m30s"},
	{"Fence after R", supersedes("Fence", 5*time.Minute), ""},
	{"Fence before R", supersedes("Fence", 2*time.Minute), "sooner than 4m50s"},
	{"Hold, however late", supersedes("Hold", time.Hour), "has not confirmed its stop"},
	{"Hold by an operator's declaration", func(h *history) {
		h.fenced["a"] = true
		supersedes("Hold", time.Minute)(h)
	}, ""},
	{"Fence early by an operator's declaration", func(h *history) {
		h.fenced["a"] = true
		supersedes("Fence", time.Minute)(h)
	}, ""},
	{"a declaration of an earlier loss", func(h *history) {
		h.fenced["a"] = true
		h.RecordOutage(h.now, "a")
		h.EndOutages()
		supersedes("Hold", time.Minute)(h)
	}, "has not confirmed its stop"},
	{"superseded in a later state too", func(h *history) {
		supersedes("Restart", 2*time.Minute)(h)
		h.EndOutages()
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2, PodReady: false, Releasing: map[string]int64{"a": 1}, Superseded: map[string]int64{"a": 1}})
	}, ""},
	{"going back to what was left behind", func(h *history) {
		supersedes("Restart", 2*time.Minute)(h)
		h.session(SessionState{Epoch: 3, Cluster: "a", Placed: 3, Releasing: map[string]int64{"b": 2}, Superseded: map[string]int64{"b": 2}})
	}, ""},
	{"going on to a third for nothing", func(h *history) {
		supersedes("Restart", 2*time.Minute)(h)
		h.session(SessionState{Epoch: 3, Cluster: "c", Placed: 3, Releasing: map[string]int64{"a": 1, "b": 2}, Superseded: map[string]int64{"a": 1, "b": 2}})
	}, "sooner than 1m30s"},
	{"a Pod that a power cut took", func(h *history) {
		h.run()
		h.RecordPowerLoss(h.now, "a")
		h.podDeleted("p1")
	}, ""},
	{"a Pod that goes as its member's lease is over", func(h *history) {
		h.run()
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Mode: "Fence", Lapsed: true})
		h.podDeleted("p1")
	}, ""},
	{"a Pod of mode Fence that goes as its member was away for L", fenced(180 * time.Second), ""},
	{"a Pod of mode Fence that goes sooner", fenced(179 * time.Second), "neither side has a reason for it"},
	{"what a removed member holds", func(h *history) {
		supersedes("Restart", 2*time.Minute)(h)
		h.removed["a"] = true
		h.SetReachable("a", true)
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2})
	}, ""},
	{"a home that is left behind in a member is collected", func(h *history) {
		h.fenced["a"] = true
		supersedes("Hold", time.Minute)(h)
		h.HomeDeleted(h.now, HomeState{Cluster: "a", UID: "h", Name: "home", Session: "s"})
	}, ""},
	{"a home goes where its session is now", func(h *history) {
		h.fenced["a"] = true
		supersedes("Hold", time.Minute)(h)
		h.HomeDeleted(h.now, HomeState{Cluster: "b", UID: "h", Name: "home", Session: "s"})
	}, "nothing requested it"},
}

func TestFailovers(t *testing.T) {
	for _, tc := range losses {
		t.Run(tc.name, func(t *testing.T) {
			h := newHistory()
			tc.play(h)
			h.pass(long)
			h.pass(long)
			switch {
			case tc.want == "" && len(h.found) > 0:
				t.Errorf("violations: %v, want none", h.found)
			case tc.want != "" && (len(h.found) != 1 || !strings.Contains(h.found[0].What, tc.want)):
				t.Errorf("want one violation that contains %q, got %v", tc.want, h.found)
			}
		})
	}
}
