package checker

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Hub is the name of the hub among the clusters that are watched.
const Hub = "hub"

// SessionState is what the hub's API server holds of a session.
type SessionState struct {
	UID  types.UID
	Name string
	// Epoch is the highest that was ever assigned.
	Epoch int64
	// Cluster and Placed are the member where it is placed and the epoch of that placement; "" and
	// 0 if it is not placed.
	Cluster string
	Placed  int64
	// Releasing is the epoch up to which each member must stop it.
	Releasing map[string]int64
	// Superseded are those of Releasing whose stop the session did not wait for.
	Superseded map[string]int64
	Deleting   bool
	Suspended  bool
	Attempt    int64
	// PodReady means that the status shows the desktop ready.
	PodReady bool
}

// admits reports whether the hub allows this epoch of the session in this member.
func (f *SessionState) admits(cluster string, epoch int64) bool {
	return f.Cluster == cluster && f.Placed >= epoch || f.Releasing[cluster] >= epoch
}

// AssignmentState is what a member's API server holds of an assignment.
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
	// Lapsed means that the member's lease lapsed, and the hub has not affirmed this placement
	// since.
	Lapsed   bool
	Deleting bool
	PodReady bool
	// ScaleUpFailed means that its status shows that no node is added for it.
	ScaleUpFailed bool
	// Desktop is the environment of its desktop, which an edit of the session may change.
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
	// Runs means that its desktop has started.
	Runs bool
	// Ended means that all its containers have ended by themselves, Stopped that they have ended
	// because the Pod is being deleted.
	Ended, Stopped bool
}

// HomeState is a VDIHome of the hub, or a PersistentVolumeClaim of a member.
type HomeState struct {
	Cluster string
	UID     types.UID
	Name    string
	// Session is the one that a claim belongs to; "" if the claim outlives sessions.
	Session types.UID
}

// APIReader reads an API server directly. A watch may lag; what this returns was true at some time
// after the call.
type APIReader interface {
	// Session returns nil if the hub has none of that UID.
	Session(ctx context.Context, name string, uid types.UID) (*SessionState, error)
	// Assignment returns nil if the member has none of that session.
	Assignment(ctx context.Context, cluster, name string, session types.UID) (*AssignmentState, error)
	// Assignments returns all that the member has.
	Assignments(ctx context.Context, cluster string) ([]AssignmentState, error)
	// Pod returns nil if the member has none of that UID.
	Pod(ctx context.Context, pod PodState) (*PodState, error)
	// DeletionRequested reports whether anything but a kubelet requested the end of a Pod that was
	// first observed and found missing at these times.
	DeletionRequested(pod PodState, seen, gone time.Time) (bool, error)
}
