package checker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// history feeds the checker, on a clock that the test moves.
type history struct {
	*Checker
	now time.Time
	// hub, member and live are what the API servers return.
	hub    map[types.UID]SessionState
	member map[string]map[types.UID]AssignmentState
	live   map[types.UID]PodState
	down   bool
	// notRequested means that nothing but the simulated kubelet deleted a Pod.
	notRequested bool
}

func newHistory() *history {
	return &history{
		Checker: New(), now: time.Unix(1e9, 0), hub: map[types.UID]SessionState{},
		member: map[string]map[types.UID]AssignmentState{"a": {}, "b": {}}, live: map[types.UID]PodState{},
	}
}

var errDown = errors.New("connection refused")

func (h *history) answer() error {
	if h.down {
		return errDown
	}
	return nil
}

func (h *history) reader() APIReader { return historyReader{h} }

type historyReader struct{ *history }

func (o historyReader) Session(_ context.Context, _ string, uid types.UID) (*SessionState, error) {
	if f, there := o.hub[uid]; there {
		return &f, o.answer()
	}
	return nil, o.answer()
}

func (o historyReader) Assignment(_ context.Context, cluster, _ string, uid types.UID) (*AssignmentState, error) {
	if f, there := o.member[cluster][uid]; there {
		return &f, o.answer()
	}
	return nil, o.answer()
}

func (o historyReader) Assignments(_ context.Context, cluster string) ([]AssignmentState, error) {
	return slices.Collect(maps.Values(o.member[cluster])), o.answer()
}

func (o historyReader) Pod(_ context.Context, p PodState) (*PodState, error) {
	if f, there := o.live[p.UID]; there {
		return &f, o.answer()
	}
	return nil, o.answer()
}

func (o historyReader) DeletionRequested(PodState, time.Time, time.Time) (bool, error) {
	return !o.notRequested, o.answer()
}

// pass advances the clock and resolves what is due.
func (h *history) pass(d time.Duration) {
	h.now = h.now.Add(d)
	for key, d := range h.Due(h.now) {
		if proven, err := d.Confirm(context.Background(), h.reader()); err == nil {
			h.Resolve(h.now, key, d, proven)
		}
	}
}

func (h *history) session(f SessionState) {
	f.UID, f.Name = "s", "ns/s"
	h.hub["s"] = f
	h.Checker.ObserveSession(h.now, f)
}

func (h *history) delete() {
	delete(h.hub, "s")
	h.SessionDeleted(h.now, "s")
}

func (h *history) assignment(f AssignmentState) {
	f.Session, f.Name = "s", "ns/s"
	h.member[f.Cluster]["s"] = f
	h.Checker.ObserveAssignment(h.now, f)
}

func (h *history) unassign(cluster string, epoch int64) {
	delete(h.member[cluster], "s")
	h.AssignmentDeleted(h.now, AssignmentState{Cluster: cluster, Session: "s", Name: "ns/s", Epoch: epoch})
}

func (h *history) pod(cluster string, uid types.UID, epoch int64) {
	p := PodState{Cluster: cluster, UID: uid, Name: string(uid), Session: "s", Epoch: epoch}
	h.live[uid] = p
	h.Checker.ObservePod(h.now, p)
}

func (h *history) stopped(uid types.UID) {
	p := h.live[uid]
	p.Stopped = true
	h.live[uid] = p
	h.Checker.ObservePod(h.now, p)
}

func (h *history) podDeleted(uid types.UID) {
	p := h.live[uid]
	delete(h.live, uid)
	h.PodDeleted(h.now, p)
}

// run makes a session run in member a under epoch 1.
func (h *history) run() {
	h.session(SessionState{})
	h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1})
	h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Mode: "Hold"})
	h.pod("a", "p1", 1)
	h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Mode: "Hold", PodReady: true})
	h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, PodReady: true})
}

// move moves it to member b in the order that the guarantees require.
func (h *history) move() {
	h.session(SessionState{Epoch: 1, Releasing: map[string]int64{"a": 1}})
	h.podDeleted("p1")
	h.unassign("a", 1)
	h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2})
	h.assignment(AssignmentState{Cluster: "b", Epoch: 2})
	h.pod("b", "p2", 2)
}
