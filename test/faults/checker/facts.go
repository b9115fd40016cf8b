package checker

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Hub is the hub among the clusters that are watched.
const Hub = "hub"

// SessionState is what the hub's API server holds of a session.
type SessionState struct {
	UID  types.UID
	Name string
	// Epoch is the highest ever given.
	Epoch int64
	// Cluster and Placed are where it is placed, and under which epoch; "" and 0
	// if it is not.
	Cluster string
	Placed  int64
	// Releasing is up to which epoch each member must stop it.
	Releasing map[string]int64
	// Superseded are those of them that the session did not wait for.
	Superseded map[string]int64
	Deleting   bool
	Suspended  bool
	Attempt    int64
	// PodReady: the status says that the desktop runs.
	PodReady bool
}

// placed: the hub says that this epoch of the session may be in this member.
func (f *SessionState) admits(cluster string, epoch int64) bool {
	return f.Cluster == cluster && f.Placed >= epoch || f.Releasing[cluster] >= epoch
}

// AssignmentState is what a member's API server holds of one.
type AssignmentState struct {
	Cluster   string
	Session   types.UID
	Name      string
	Epoch     int64
	Attempt   int64
	Revision  string
	User      string
	Mode      string // of failover
	Suspended bool
	Failed    bool
	// Lapsed: the member's lease is over, or was and the hub has not affirmed this
	// placement since.
	Lapsed   bool
	Deleting bool
	PodReady bool
	// Desktop is what an edit of the session may change of its desktop.
	Desktop string
}

// PodState is what a member's API server holds of a session's Pod.
type PodState struct {
	Cluster   string
	UID       types.UID
	Namespace string
	Name      string
	Session   types.UID
	Epoch     int64
	Attempt   int64
	// Runs: its desktop has started.
	Runs bool
	// Ended: all its containers have, by themselves. Stopped: they have since somebody
	// asked for that.
	Ended, Stopped bool
}

// HomeState is a VDIHome of the hub, or a claim of a member.
type HomeState struct {
	Cluster string
	UID     types.UID
	Name    string
	// Session that a claim is of; "" if it outlives sessions.
	Session types.UID
}

// APIReader asks an API server itself how things stand now. A watch may lag; what
// an oracle answers was true at some time after the question.
type APIReader interface {
	// session is nil if the hub has none of that UID.
	Session(ctx context.Context, name string, uid types.UID) (*SessionState, error)
	// assignment is nil if the member has none of that session.
	Assignment(ctx context.Context, cluster, name string, session types.UID) (*AssignmentState, error)
	// pod is nil if the member has none of that UID.
	Pod(ctx context.Context, pod PodState) (*PodState, error)
	// ended: somebody asked for the end of a Pod that was first seen and seen to
	// be gone at these times.
	DeletionRequested(pod PodState, seen, gone time.Time) (bool, error)
}
