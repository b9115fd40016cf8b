package faults

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// told is a history as the checker hears it, on a clock that the test moves.
type told struct {
	*checker
	now time.Time
	// What the API servers answer when asked.
	hub    map[types.UID]sessionFact
	member map[string]map[types.UID]assignmentFact
	live   map[types.UID]podFact
	down   bool
	// unasked: no Pod was deleted by anybody but the simulated kubelet.
	unasked bool
}

func newTold() *told {
	return &told{
		checker: newChecker(), now: time.Unix(1e9, 0), hub: map[types.UID]sessionFact{},
		member: map[string]map[types.UID]assignmentFact{"a": {}, "b": {}}, live: map[types.UID]podFact{},
	}
}

var errDown = errors.New("connection refused")

func (h *told) ask() error {
	if h.down {
		return errDown
	}
	return nil
}

func (h *told) oracle() oracle { return toldOracle{h} }

type toldOracle struct{ *told }

func (o toldOracle) session(_ context.Context, _ string, uid types.UID) (*sessionFact, error) {
	if f, there := o.hub[uid]; there {
		return &f, o.ask()
	}
	return nil, o.ask()
}

func (o toldOracle) assignment(_ context.Context, cluster, _ string, uid types.UID) (*assignmentFact, error) {
	if f, there := o.member[cluster][uid]; there {
		return &f, o.ask()
	}
	return nil, o.ask()
}

func (o toldOracle) pod(_ context.Context, p podFact) (*podFact, error) {
	if f, there := o.live[p.UID]; there {
		return &f, o.ask()
	}
	return nil, o.ask()
}

func (o toldOracle) ended(podFact, time.Time, time.Time) (bool, error) { return !o.unasked, o.ask() }

// pass lets time go by and settles what is due.
func (h *told) pass(d time.Duration) {
	h.now = h.now.Add(d)
	for key, d := range h.due(h.now) {
		if proven, err := d.proof(context.Background(), h.oracle()); err == nil {
			h.judge(h.now, key, d, proven)
		}
	}
}

func (h *told) session(f sessionFact) {
	f.UID, f.Name = "s", "ns/s"
	h.hub["s"] = f
	h.checker.session(h.now, f)
}

func (h *told) deleted() {
	delete(h.hub, "s")
	h.sessionGone(h.now, "s")
}

func (h *told) assignment(f assignmentFact) {
	f.Session, f.Name = "s", "ns/s"
	h.member[f.Cluster]["s"] = f
	h.checker.assignment(h.now, f)
}

func (h *told) unassigned(cluster string, epoch int64) {
	delete(h.member[cluster], "s")
	h.assignmentGone(h.now, assignmentFact{Cluster: cluster, Session: "s", Name: "ns/s", Epoch: epoch})
}

func (h *told) pod(cluster string, uid types.UID, epoch int64) {
	p := podFact{Cluster: cluster, UID: uid, Name: string(uid), Session: "s", Epoch: epoch}
	h.live[uid] = p
	h.checker.pod(h.now, p)
}

func (h *told) stopped(uid types.UID) {
	p := h.live[uid]
	p.Stopped = true
	h.live[uid] = p
	h.checker.pod(h.now, p)
}

func (h *told) podless(uid types.UID) {
	p := h.live[uid]
	delete(h.live, uid)
	h.podGone(h.now, p)
}

// runs is a session that runs in member a under epoch 1.
func (h *told) runs() {
	h.session(sessionFact{})
	h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1})
	h.assignment(assignmentFact{Cluster: "a", Epoch: 1, Mode: "Hold"})
	h.pod("a", "p1", 1)
	h.assignment(assignmentFact{Cluster: "a", Epoch: 1, Mode: "Hold", PodReady: true})
	h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1, PodReady: true})
}

// moves it to member b in the order that the promises ask for.
func (h *told) moves() {
	h.session(sessionFact{Epoch: 1, Releasing: map[string]int64{"a": 1}})
	h.podless("p1")
	h.unassigned("a", 1)
	h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2})
	h.assignment(assignmentFact{Cluster: "b", Epoch: 2})
	h.pod("b", "p2", 2)
}

const long = time.Minute

var histories = []struct {
	name string
	tell func(*told)
	want []int
}{
	{"a whole life", func(h *told) {
		h.runs()
		h.moves()
		h.pass(long)
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2, Deleting: true})
		h.podless("p2")
		h.unassigned("b", 2)
		h.deleted()
	}, nil},
	{"a rest and a second run", func(h *told) {
		h.runs()
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1, Suspended: true})
		h.podless("p1")
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1})
		h.pod("a", "p2", 1)
	}, nil},
	{"a second try of the same epoch", func(h *told) {
		h.runs()
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1, Attempt: 1})
		h.podless("p1")
	}, nil},
	{"a Pod stops that nobody has a reason to stop, and its finalizer shows it stopped", func(h *told) {
		h.runs()
		h.stopped("p1")
		h.podless("p1")
		h.pass(long)
	}, []int{4}},
	{"a Pod is still shown that has stopped", func(h *told) {
		h.runs()
		h.session(sessionFact{Epoch: 1, Releasing: map[string]int64{"a": 1}})
		h.stopped("p1")
		h.unassigned("a", 1)
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2})
		h.assignment(assignmentFact{Cluster: "b", Epoch: 2})
		h.pod("b", "p2", 2)
	}, nil},
	{"two members run it", func(h *told) {
		h.runs()
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}})
		h.assignment(assignmentFact{Cluster: "b", Epoch: 2})
		h.pod("b", "p2", 2)
	}, []int{1}},
	{"two members seem to run it, and the first has ended", func(h *told) {
		h.runs()
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}})
		h.assignment(assignmentFact{Cluster: "b", Epoch: 2})
		delete(h.live, "p1")
		h.pod("b", "p2", 2)
	}, nil},
	{"two members run a Restart session of which one is cut off", func(h *told) {
		h.runs()
		h.away["a"] = h.now
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1, Mode: "Restart", PodReady: true})
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}})
		h.assignment(assignmentFact{Cluster: "b", Epoch: 2, Mode: "Restart"})
		h.pod("b", "p2", 2)
	}, nil},
	{"two members run it while one's API server is down, which comes back", func(h *told) {
		h.runs()
		h.down = true
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}})
		h.assignment(assignmentFact{Cluster: "b", Epoch: 2})
		h.pod("b", "p2", 2)
		h.pass(long)
		h.down = false
	}, []int{1}},
	{"the placement goes back", func(h *told) {
		h.runs()
		h.moves()
		h.session(sessionFact{Epoch: 2, Cluster: "a", Placed: 1})
	}, []int{2}},
	{"the epoch falls", func(h *told) {
		h.session(sessionFact{Epoch: 3})
		h.session(sessionFact{Epoch: 2})
	}, []int{2}},
	{"a status of an older epoch", func(h *told) {
		h.runs()
		h.moves()
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2, PodReady: true})
	}, []int{2}},
	{"a status before its member's watch has told", func(h *told) {
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1, PodReady: true})
		h.pass(time.Second)
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1, PodReady: true})
	}, nil},
	{"an epoch given twice", func(h *told) {
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1})
		h.session(sessionFact{Epoch: 1, Cluster: "b", Placed: 1})
	}, []int{3}},
	{"an epoch given again after the hub was restored", func(h *told) {
		h.runs()
		h.moves()
		h.restored(map[types.UID]sessionFact{"s": {Epoch: 1}})
		h.session(sessionFact{Epoch: 1, Releasing: map[string]int64{"a": 1, "b": 2}})
		h.session(sessionFact{Epoch: 2, Cluster: "a", Placed: 2, Releasing: map[string]int64{"b": 2}})
	}, []int{3, 3}},
	{"an epoch given again to its member after the hub was restored", func(h *told) {
		h.runs()
		h.session(sessionFact{Epoch: 1, Releasing: map[string]int64{"a": 1}})
		h.podless("p1")
		h.unassigned("a", 1)
		h.restored(map[types.UID]sessionFact{"s": {}})
		h.session(sessionFact{})
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1})
	}, []int{3}},
	{"an epoch of the backup stored again after the hub was restored", func(h *told) {
		h.runs()
		h.session(sessionFact{Epoch: 1, Releasing: map[string]int64{"a": 1}})
		h.podless("p1")
		h.unassigned("a", 1)
		h.restored(map[types.UID]sessionFact{"s": {Epoch: 1, Cluster: "a", Placed: 1}})
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1})
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1})
	}, []int{3}},
	{"an epoch below that of the backup after the hub was restored", func(h *told) {
		h.runs()
		h.moves()
		h.restored(map[types.UID]sessionFact{"s": {Epoch: 2, Cluster: "b", Placed: 2}})
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1})
	}, []int{2, 2}},
	{"a copy that a restored hub takes over", func(h *told) {
		h.runs()
		h.moves()
		h.restored(map[types.UID]sessionFact{"s": {Epoch: 1, Cluster: "a", Placed: 1}})
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1})
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2})
		h.assignment(assignmentFact{Cluster: "b", Epoch: 2, PodReady: true})
	}, nil},
	{"an epoch that was sent before it was durable", func(h *told) {
		h.session(sessionFact{})
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1})
	}, []int{3, 5}},
	{"an epoch that is durable and whose watch lags", func(h *told) {
		h.session(sessionFact{})
		h.hub["s"] = sessionFact{UID: "s", Epoch: 1, Cluster: "a", Placed: 1}
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1})
	}, nil},
	{"an epoch in another member than it was given to", func(h *told) {
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1})
		h.assignment(assignmentFact{Cluster: "b", Epoch: 1})
	}, []int{3, 5}},
	{"an epoch that becomes something else", func(h *told) {
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1})
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1, Revision: "r1", User: "u"})
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1, Revision: "r2", User: "u"})
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1, Revision: "r2", User: "v"})
	}, []int{3, 3}},
	{"a session that is deleted while nobody listens to the hub", func(h *told) {
		h.runs()
		delete(h.hub, "s")
		h.podless("p1")
		h.unassigned("a", 1)
	}, nil},
	{"an assignment goes for nothing", func(h *told) {
		h.runs()
		h.unassigned("a", 1)
	}, []int{4}},
	{"an assignment goes while the hub's API server is down, for a reason that shows later", func(h *told) {
		h.runs()
		h.sight(hubName, false)
		h.unassigned("a", 1)
		h.pass(long)
		h.sight(hubName, true)
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1, Deleting: true})
	}, nil},
	{"a Pod goes for nothing", func(h *told) {
		h.runs()
		h.podless("p1")
	}, []int{4}},
	{"a Pod that has not started makes way for an edit", func(h *told) {
		h.runs()
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1, Desktop: "edited"})
		h.podless("p1")
	}, nil},
	{"a Pod that runs goes for an edit", func(h *told) {
		h.runs()
		h.checker.pod(h.now, podFact{Cluster: "a", UID: "p1", Name: "p1", Session: "s", Epoch: 1, Runs: true})
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1, Desktop: "edited"})
		h.podless("p1")
	}, []int{4}},
	{"a Pod goes by the simulated kubelet's mistake", func(h *told) {
		h.runs()
		h.unasked = true
		h.podless("p1")
	}, nil},
	{"a Pod goes that the test removed", func(h *told) {
		h.runs()
		h.excused["p1"] = true
		h.podless("p1")
	}, nil},
	{"a session that a restored hub has forgotten is stopped", func(h *told) {
		h.runs()
		h.restored(nil)
		h.podless("p1")
	}, []int{4}},
	{"a session that a restored hub has forgotten runs on", func(h *told) {
		h.runs()
		h.restored(nil)
		delete(h.hub, "s")
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1, PodReady: true})
	}, nil},
	{"a home goes for nothing", func(h *told) {
		h.runs()
		h.homeGone(h.now, homeFact{Cluster: "a", UID: "h", Name: "home", Session: "s"})
		h.homeGone(h.now, homeFact{Cluster: hubName, UID: "v", Name: "of a user"})
	}, []int{4, 4}},
	{"a home goes whose session was deleted while nobody listened", func(h *told) {
		h.runs()
		h.homeGone(h.now, homeFact{Cluster: "a", UID: "h", Name: "home", Session: "s"})
		delete(h.hub, "s")
	}, nil},
	{"a home goes with its session", func(h *told) {
		h.runs()
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1, Deleting: true})
		h.homeGone(h.now, homeFact{Cluster: "a", UID: "h", Name: "home", Session: "s"})
	}, nil},
	{"a session is let go while its member still holds it", func(h *told) {
		h.runs()
		h.session(sessionFact{Epoch: 1, Cluster: "a", Placed: 1, Deleting: true})
		h.deleted()
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1, Deleting: true})
	}, []int{5}},
	{"a member holds what was placed elsewhere", func(h *told) {
		h.runs()
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2})
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1})
	}, []int{5}},
	{"a member holds what it is to release", func(h *told) {
		h.runs()
		h.session(sessionFact{Epoch: 2, Cluster: "b", Placed: 2, Releasing: map[string]int64{"a": 1}})
		h.assignment(assignmentFact{Cluster: "a", Epoch: 1, Deleting: true})
	}, nil},
}
