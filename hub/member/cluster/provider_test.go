package cluster

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

// readyMember is a member that is connected. It counts itself as it is engaged.
type readyMember struct{ engaged *sync.WaitGroup }

func (readyMember) Available() bool                     { return true }
func (readyMember) Send(protocol.Order) error           { return nil }
func (m readyMember) Engaged()                          { m.engaged.Done() }
func (readyMember) Placed(types.UID) bool               { return true }
func (readyMember) Known(types.UID, int64, string) bool { return true }

// noControllers are engaged at once.
type noControllers struct{}

func (noControllers) Engage(context.Context, multicluster.ClusterName, cluster.Cluster) error {
	return nil
}

// A new leader engages all members one after the other, so an engagement must not wait for a
// timer. The clock of the bubble passes only while all goroutines wait for one.
func TestAnEngagementWaitsForNoTimer(t *testing.T) {
	scheme := kruntime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		p := NewProvider(scheme)
		var engaged sync.WaitGroup
		for i := range 20 {
			engaged.Add(1)
			m := p.Add(fmt.Sprintf("member-%d", i), readyMember{&engaged})
			m.Cache.Apply(reportsOf(item("a", 1, active)))
			p.Engage(m)
		}
		start, ended := time.Now(), make(chan error, 1)
		go func() { ended <- p.Start(ctx, noControllers{}) }()
		engaged.Wait()
		if took := time.Since(start); took != 0 {
			t.Errorf("the engagement of 20 members waited for %s", took)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
