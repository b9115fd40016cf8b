package assignment

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestAWorkerWaitsForTheStartOfWhatItHasStored(t *testing.T) {
	s, key := &Starts{}, types.NamespacedName{Namespace: "desktops", Name: "web"}
	s.await(t.Context(), key) // nothing has begun
	s.begin(key)
	waited := make(chan struct{})
	go func() {
		s.await(t.Context(), key)
		close(waited)
	}()
	select {
	case <-waited:
		t.Fatal("it has not waited")
	case <-time.After(20 * time.Millisecond):
	}
	s.End(key)
	<-waited
	s.await(t.Context(), key)
	s.begin(key)
	s.End(key) // before the worker waits
	s.await(t.Context(), key)
}

func TestAWorkerWaitsNoLongerThanItsManagerRuns(t *testing.T) {
	s, key := &Starts{}, types.NamespacedName{Name: "web"}
	s.begin(key)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.await(ctx, key)
	if _, left := s.reconciled.Load(key); left {
		t.Error("a start that no worker waits for any more is kept")
	}
}
