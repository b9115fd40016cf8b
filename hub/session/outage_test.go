package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
)

// After an outage of the API server of 5 s, in which each of 5,000 queued sessions
// failed repeatedly, all are reconciled soon, although no event requeues them.
func TestSessionsAreServedSoonAfterAnOutage(t *testing.T) {
	const sessions, outage, late = 5_000, 5 * time.Second, 30 * time.Second
	var away atomic.Bool
	away.Store(true)
	var served sync.WaitGroup
	served.Add(sessions)
	options := watches{&Reconciler{Cached: index.Of(), Scheduler: answering{}}}.options()
	options.SkipNameValidation = ptr.To(true)
	options.Reconciler = reconcile.Func(func(_ context.Context, req reconcile.Request) (reconcile.Result, error) {
		if away.Load() {
			return reconcile.Result{}, errors.New("connection refused")
		}
		served.Done()
		return reconcile.Result{}, nil
	})
	c, err := controller.NewUnmanaged("outage", options)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		for i := range sessions {
			q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "a", Name: fmt.Sprintf("s%d", i)}})
		}
		return nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended, all := make(chan error, 1), make(chan struct{})
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	go func() { ended <- c.Start(ctx) }()
	go func() { served.Wait(); close(all) }()

	<-time.After(outage)
	away.Store(false)
	back := time.Now()
	select {
	case <-all:
		t.Logf("all %d are served %s after the outage", sessions, time.Since(back).Round(time.Millisecond))
	case <-time.After(late):
		t.Errorf("not all of %d sessions are served %s after an outage of %s", sessions, late, outage)
	}
}
