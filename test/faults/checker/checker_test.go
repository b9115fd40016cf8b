package checker

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const long = time.Minute

var histories = []struct {
	name string
	play func(*history)
	want []int
}{
	{"a whole lifecycle", func(h *history) {
		h.run()
		h.move()
		h.pass(long)
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2, Deleting: true})
		h.podDeleted("p2")
		h.unassign("b", 2)
		h.delete()
	}, nil},
	{"a suspension and a second run", func(h *history) {
		h.run()
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, Suspended: true})
		h.podDeleted("p1")
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1})
		h.pod("a", "p2", 1)
	}, nil},
	{"a second try of the same epoch", func(h *history) {
		h.run()
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, Attempt: 1})
		h.podDeleted("p1")
	}, nil},
	{"a Pod stops that nothing requires to stop, and its finalizer shows it stopped", func(h *history) {
		h.run()
		h.stopped("p1")
		h.podDeleted("p1")
		h.pass(long)
	}, []int{4}},
	{"a Pod is still shown that has stopped", func(h *history) {
		h.run()
		h.session(SessionState{Epoch: 1, Releasing: map[string]int64{"a": 1}})
		h.stopped("p1")
		h.unassign("a", 1)
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2})
		h.assignment(AssignmentState{Cluster: "b", Epoch: 2})
		h.pod("b", "p2", 2)
	}, nil},
	{"two members run it", func(h *history) {
		h.run()
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}})
		h.assignment(AssignmentState{Cluster: "b", Epoch: 2})
		h.pod("b", "p2", 2)
	}, []int{1}},
	{"two members seem to run it, and the first has ended", func(h *history) {
		h.run()
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}})
		h.assignment(AssignmentState{Cluster: "b", Epoch: 2})
		delete(h.live, "p1")
		h.pod("b", "p2", 2)
	}, nil},
	{"two members run a Restart session of which one is cut off", func(h *history) {
		h.run()
		h.away["a"] = h.now
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Mode: "Restart", PodReady: true})
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}})
		h.assignment(AssignmentState{Cluster: "b", Epoch: 2, Mode: "Restart"})
		h.pod("b", "p2", 2)
	}, nil},
	{"two members run it while one's API server is down, which comes back", func(h *history) {
		h.run()
		h.down = true
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}})
		h.assignment(AssignmentState{Cluster: "b", Epoch: 2})
		h.pod("b", "p2", 2)
		h.pass(long)
		h.down = false
	}, []int{1}},
	{"the placement's epoch falls", func(h *history) {
		h.run()
		h.move()
		h.session(SessionState{Epoch: 2, Cluster: "a", Placed: 1})
	}, []int{2}},
	{"the epoch falls", func(h *history) {
		h.session(SessionState{Epoch: 3})
		h.session(SessionState{Epoch: 2})
	}, []int{2}},
	{"a status of an older epoch", func(h *history) {
		h.run()
		h.move()
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2, PodReady: true})
	}, []int{2}},
	{"a status before its member's watch has shown it", func(h *history) {
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, PodReady: true})
		h.pass(time.Second)
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, PodReady: true})
	}, nil},
	{"a status whose session was deleted while its member was not watched", func(h *history) {
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1})
		h.SetReachable("a", false)
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, PodReady: true})
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, Deleting: true})
		h.unassign("a", 1)
		h.delete()
		h.SetReachable("a", true)
	}, nil},
	{"a status of what its member never had", func(h *history) {
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, PodReady: true})
	}, []int{2}},
	{"a status of what was stored and deleted while its member was not watched", func(h *history) {
		h.SetReachable("a", false)
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, PodReady: true})
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, Deleting: true})
		h.delete()
		h.pass(time.Second)
		h.SetReachable("a", true)
	}, nil},
	{"a status of what is not ready in its member, which was not watched", func(h *history) {
		h.SetReachable("a", false)
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, PodReady: true})
		h.pass(time.Second)
		h.SetReachable("a", true)
		h.member["a"]["s"] = AssignmentState{Cluster: "a", Session: "s", Epoch: 1}
	}, []int{2}},
	{"an epoch of a session that was placed and deleted while the hub was not watched", func(h *history) {
		h.interrupted[Hub] = true
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1})
		h.pass(time.Second)
		h.unassign("a", 1)
		h.interrupted[Hub] = false
	}, nil},
	{"an epoch of a session that the hub never had", func(h *history) {
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1})
		h.pass(time.Second)
		h.unassign("a", 1)
	}, []int{3}},
	{"an epoch assigned twice", func(h *history) {
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1})
		h.session(SessionState{Epoch: 1, Cluster: "b", Placed: 1})
	}, []int{3}},
	{"an epoch assigned again after the hub was restored", func(h *history) {
		h.run()
		h.move()
		h.Restored(map[types.UID]SessionState{"s": {Epoch: 1}})
		h.session(SessionState{Epoch: 1, Releasing: map[string]int64{"a": 1, "b": 2}})
		h.session(SessionState{Epoch: 2, Cluster: "a", Placed: 2, Releasing: map[string]int64{"b": 2}})
	}, []int{3, 3}},
	{"an epoch assigned again to its member after the hub was restored", func(h *history) {
		h.run()
		h.session(SessionState{Epoch: 1, Releasing: map[string]int64{"a": 1}})
		h.podDeleted("p1")
		h.unassign("a", 1)
		h.Restored(map[types.UID]SessionState{"s": {}})
		h.session(SessionState{})
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1})
	}, []int{3}},
	{"an epoch of the backup stored again after the hub was restored", func(h *history) {
		h.run()
		h.session(SessionState{Epoch: 1, Releasing: map[string]int64{"a": 1}})
		h.podDeleted("p1")
		h.unassign("a", 1)
		h.Restored(map[types.UID]SessionState{"s": {Epoch: 1, Cluster: "a", Placed: 1}})
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1})
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1})
	}, []int{3}},
	{"an epoch below that of the backup after the hub was restored", func(h *history) {
		h.run()
		h.move()
		h.Restored(map[types.UID]SessionState{"s": {Epoch: 2, Cluster: "b", Placed: 2}})
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1})
	}, []int{2, 2}},
	{"a copy that a restored hub takes over", func(h *history) {
		h.run()
		h.move()
		h.Restored(map[types.UID]SessionState{"s": {Epoch: 1, Cluster: "a", Placed: 1}})
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1})
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2})
		h.assignment(AssignmentState{Cluster: "b", Epoch: 2, PodReady: true})
	}, nil},
	{"an epoch that was sent before it was durable", func(h *history) {
		h.session(SessionState{})
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1})
	}, []int{3, 5}},
	{"an epoch that is durable and whose watch lags", func(h *history) {
		h.session(SessionState{})
		h.hub["s"] = SessionState{UID: "s", Epoch: 1, Cluster: "a", Placed: 1}
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1})
	}, nil},
	{"an epoch in another member than it was assigned to", func(h *history) {
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1})
		h.assignment(AssignmentState{Cluster: "b", Epoch: 1})
	}, []int{3, 5}},
	{"an epoch that becomes something else", func(h *history) {
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1})
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Revision: "r1", User: "u"})
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Revision: "r2", User: "u"})
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Revision: "r2", User: "v"})
	}, []int{3, 3}},
	{"a session that is deleted while the hub's watch is interrupted", func(h *history) {
		h.run()
		delete(h.hub, "s")
		h.podDeleted("p1")
		h.unassign("a", 1)
	}, nil},
	{"an assignment is deleted without a reason", func(h *history) {
		h.run()
		h.unassign("a", 1)
	}, []int{4}},
	{"an assignment goes while the hub's API server is down, for a reason that shows later", func(h *history) {
		h.run()
		h.SetReachable(Hub, false)
		h.unassign("a", 1)
		h.pass(long)
		h.SetReachable(Hub, true)
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, Deleting: true})
	}, nil},
	{"a Pod is deleted without a reason", func(h *history) {
		h.run()
		h.podDeleted("p1")
	}, []int{4}},
	{"a Pod that has not started makes way for an edit", func(h *history) {
		h.run()
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Desktop: "changed"})
		h.podDeleted("p1")
	}, nil},
	{"a Pod that runs goes for an edit", func(h *history) {
		h.run()
		h.Checker.ObservePod(h.now, PodState{Cluster: "a", UID: "p1", Name: "p1", Session: "s", Epoch: 1, Runs: true})
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Desktop: "changed"})
		h.podDeleted("p1")
	}, []int{4}},
	{"a Pod goes since the simulated kubelet removed the wrong one", func(h *history) {
		h.run()
		h.notRequested = true
		h.podDeleted("p1")
	}, nil},
	{"a Pod goes that the test removed", func(h *history) {
		h.run()
		h.ignored["p1"] = true
		h.podDeleted("p1")
	}, nil},
	{"a session that a restored hub has lost is stopped", func(h *history) {
		h.run()
		h.Restored(nil)
		h.podDeleted("p1")
	}, []int{4}},
	{"a session that a restored hub has lost keeps running", func(h *history) {
		h.run()
		h.Restored(nil)
		delete(h.hub, "s")
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, PodReady: true})
	}, nil},
	{"a home is deleted without a reason", func(h *history) {
		h.run()
		h.HomeDeleted(h.now, HomeState{Cluster: "a", UID: "h", Name: "home", Session: "s"})
		h.HomeDeleted(h.now, HomeState{Cluster: Hub, UID: "v", Name: "of a user"})
	}, []int{4, 4}},
	{"a home goes whose session was deleted while the watch was interrupted", func(h *history) {
		h.run()
		h.HomeDeleted(h.now, HomeState{Cluster: "a", UID: "h", Name: "home", Session: "s"})
		delete(h.hub, "s")
	}, nil},
	{"a home goes with its session", func(h *history) {
		h.run()
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, Deleting: true})
		h.HomeDeleted(h.now, HomeState{Cluster: "a", UID: "h", Name: "home", Session: "s"})
	}, nil},
	{"the finalizer of a session is removed while its member still holds it", func(h *history) {
		h.run()
		h.session(SessionState{Epoch: 1, Cluster: "a", Placed: 1, Deleting: true})
		h.delete()
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Deleting: true})
	}, []int{5}},
	{"a member holds what was placed elsewhere", func(h *history) {
		h.run()
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2})
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1})
	}, []int{5}},
	{"a member holds what it is to release", func(h *history) {
		h.run()
		h.session(SessionState{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}})
		h.assignment(AssignmentState{Cluster: "a", Epoch: 1, Deleting: true})
	}, nil},
}
