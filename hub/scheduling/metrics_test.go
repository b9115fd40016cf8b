package scheduling

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// asking is a queue that asks for the scheduler's answers under its lock, as that of the controller of sessions does when
// an item is added.
type asking struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	of *Scheduler
}

func (a asking) Len() int {
	a.of.Answered(types.NamespacedName{Name: "alice"})
	return 7
}

// A scrape that held the scheduler's lock while it waits for that of the queue would stop both for good.
func TestAScrapeHoldsNoLockThatTheQueueNeeds(t *testing.T) {
	l := newFixture(t, &slots{})
	l.controller = asking{of: l.Scheduler}
	c := &schedulerCollector{}
	c.of.Store(l.Scheduler)
	scraped := make(chan prometheus.Metric, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Collect(scraped)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the scrape does not end")
	}
	if len(scraped) == 0 {
		t.Error("it has no metrics")
	}
}
