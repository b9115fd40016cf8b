package checker

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// placement is one epoch of a session.
type placement struct {
	session types.UID
	epoch   int64
}

// placementAttempt is one attempt of a placement.
type placementAttempt struct {
	placement
	attempt int64
}

// Session is all that was ever observed of a session.
type Session struct {
	SessionState
	// Deleted and Lost are why the hub no longer has it: Lost means that the hub was restored from
	// a time before it.
	Deleted, Lost bool
	// beforeRestore is the highest epoch that was observed before the hub was restored, and backup
	// the highest in the backup; 0 if it was not restored.
	beforeRestore, backup int64
	// highestPlaced is the highest epoch of a placement.
	highestPlaced int64
	// stopRequested is when either side last required its stop.
	stopRequested time.Time
	// desktopChanged is when the desktop of its assignment last changed.
	desktopChanged time.Time
}

type observedPod struct {
	PodState
	since time.Time
}

// state is what was last observed of each object.
type state struct {
	sessions map[types.UID]*Session
	held     map[string]map[types.UID]AssignmentState
	pods     map[types.UID]observedPod
	// nodes are those that members have and do not delete, mostNodes the most that they ever had.
	nodes     map[string]map[types.UID]NodeState
	mostNodes map[string]int
	// epochs are the members that each epoch was assigned to.
	epochs map[placement]string
	// ready are the epochs whose member reported the desktop ready.
	ready    map[placement]bool
	revision map[placementAttempt]string
	users    map[types.UID]string
}

func newState() state {
	return state{
		sessions: map[types.UID]*Session{}, held: map[string]map[types.UID]AssignmentState{}, pods: map[types.UID]observedPod{},
		nodes: map[string]map[types.UID]NodeState{}, mostNodes: map[string]int{},
		epochs: map[placement]string{}, ready: map[placement]bool{}, revision: map[placementAttempt]string{}, users: map[types.UID]string{},
	}
}

// Session returns what was observed of a session, or nil.
func (s *state) Session(uid types.UID) *Session { return s.sessions[uid] }

// Sessions returns what was observed of every session.
func (s *state) Sessions() map[types.UID]*Session { return s.sessions }

// Assignment returns what a member holds of a session.
func (s *state) Assignment(member string, session types.UID) (AssignmentState, bool) {
	f, found := s.held[member][session]
	return f, found
}

// Assignments returns all that a member holds.
func (s *state) Assignments(member string) map[types.UID]AssignmentState { return s.held[member] }

// Desktops returns the Pods of these sessions that have not ended.
func (s *state) Desktops(of ...types.UID) map[types.UID][]types.UID {
	out := map[types.UID][]types.UID{}
	for _, p := range s.pods {
		if slices.Contains(of, p.Session) && !p.Ended {
			out[p.Session] = append(out[p.Session], p.UID)
		}
	}
	return out
}

// NodeDeleted records that a member no longer has a node.
func (s *state) NodeDeleted(f NodeState) { delete(s.nodes[f.Cluster], f.UID) }

// MostNodes returns the most nodes of its autoscaler that a member had at once.
func (s *state) MostNodes(member string) int { return s.mostNodes[member] }

// Forget deletes the observations of a member that is observed again from the start.
func (s *state) Forget(member string) {
	delete(s.held, member)
	delete(s.nodes, member)
	maps.DeleteFunc(s.pods, func(_ types.UID, pod observedPod) bool { return pod.Cluster == member })
}
