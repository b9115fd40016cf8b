package election

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/ptr"
)

// notifyingLock notifies of each renewal.
type notifyingLock struct {
	resourcelock.Interface
	renewed chan struct{}
}

func (l *notifyingLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	err := l.Interface.Update(ctx, record)
	select {
	case l.renewed <- struct{}{}:
	default:
	}
	return err
}

// With the real elector, which would otherwise release the lock that another replica has
// acquired meanwhile.
func TestAnElectorThatStopsLateDoesNotReleaseTheNextLeadersLock(t *testing.T) {
	leases := fake.NewClientset().CoordinationV1()
	inner := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: "vdi-hub"}, Client: leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: "us"},
	}
	lock := &notifyingLock{Interface: inner, renewed: make(chan struct{}, 1)}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: New().Lock(lock), ReleaseOnCancel: true,
		// After its first renewal it does not read the lock during this test.
		LeaseDuration: time.Hour, RenewDeadline: 50 * time.Minute, RetryPeriod: 20 * time.Minute,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); elector.Run(ctx) }()
	<-lock.renewed

	lease, err := leases.Leases("vdi-system").Get(t.Context(), "vdi-hub", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const next = "another"
	lease.Spec.HolderIdentity = ptr.To(next)
	if _, err := leases.Leases("vdi-system").Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
	lease, err = leases.Leases("vdi-system").Get(t.Context(), "vdi-hub", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != next {
		t.Errorf("the next leader's lock is held by %q", ptr.Deref(holder, ""))
	}
}
