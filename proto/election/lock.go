package election

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
)

// LockOptions say which lock the leader holds.
type LockOptions struct {
	Namespace, Name string
	// Holder is the replica's name; the lock's identity adds something random,
	// since a Pod's containers may come and go under one name.
	Holder string
	// RenewDeadline is how long the elector tries; a request gets half of it, but
	// a second at least, so that one that hangs does not cost the lead.
	RenewDeadline time.Duration
	Scheme        *runtime.Scheme
}

// Holder names this replica, by its Pod or else by its host. It adds the name to the user
// agent, by which API servers' audit logs distinguish the replicas.
func Holder(cfg *rest.Config, pod string) (string, error) {
	holder := pod
	if holder == "" {
		var err error
		if holder, err = os.Hostname(); err != nil {
			return "", fmt.Errorf("naming this replica: %w", err)
		}
	}
	cfg.UserAgent = cmp.Or(cfg.UserAgent, rest.DefaultKubernetesUserAgent()) + " " + holder
	return holder, nil
}

// NewLock makes the lock, a Lease. Its requests must not be guarded: cfg is one
// that Guard.Wrap was not called on.
func NewLock(cfg *rest.Config, o LockOptions) (resourcelock.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent += "/leader-election"
	cfg.Timeout = max(o.RenewDeadline/2, time.Second)
	core, err := corev1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the lock's client: %w", err)
	}
	coordination, err := coordinationv1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the lock's client: %w", err)
	}
	identity := o.Holder + "_" + uuid.NewString()
	events := record.NewBroadcaster()
	events.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: core.Events("")})
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, o.Namespace, o.Name, core, coordination,
		resourcelock.ResourceLockConfig{
			Identity:      identity,
			EventRecorder: events.NewRecorder(o.Scheme, corev1.EventSource{Component: identity}),
		})
	if err != nil {
		return nil, fmt.Errorf("making the lock: %w", err)
	}
	return lock, nil
}
