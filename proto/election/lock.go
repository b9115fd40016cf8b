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

// LockOptions are the options of a leader's lock.
type LockOptions struct {
	Namespace, Name string
	// Holder is the replica's name; the lock's identity adds a random part, since a Pod's
	// containers may restart under one name.
	Holder string
	// RenewDeadline is the elector's; a request's timeout is half of it, at least a second, so
	// that a request that hangs does not end the lead.
	RenewDeadline time.Duration
	Scheme        *runtime.Scheme
}

// Holder returns the name of this replica, its Pod's or host's, and adds it to the user agent,
// by which audit logs distinguish the replicas.
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

// NewLock returns the lock, a Lease. Leadership.Wrap must not have been called on cfg.
func NewLock(cfg *rest.Config, o LockOptions) (resourcelock.Interface, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent += "/leader-election"
	cfg.Timeout = max(o.RenewDeadline/2, time.Second)
	core, err := corev1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("creating the lock's client: %w", err)
	}
	coordination, err := coordinationv1client.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("creating the lock's client: %w", err)
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
		return nil, fmt.Errorf("creating the lock: %w", err)
	}
	return lock, nil
}
