package kubelet

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// followRetry is the retry interval while the API server does not answer: constant, so that
// tests of faults do not measure a back-off of this kubelet.
const followRetry = 200 * time.Millisecond

// follow delivers all objects of a kind, then each change. When the watch ends, it lists
// again. It returns when ctx ends.
func follow(ctx context.Context, from cache.ListerWatcher, all func([]runtime.Object), one func(watch.EventType, runtime.Object)) {
	for ctx.Err() == nil {
		_ = followOnce(ctx, from, all, one)
		select {
		case <-ctx.Done():
		case <-time.After(followRetry):
		}
	}
}

func followOnce(ctx context.Context, from cache.ListerWatcher, all func([]runtime.Object), one func(watch.EventType, runtime.Object)) error {
	list, err := cache.ToListerWatcherWithContext(from).ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	objects, err := meta.ExtractList(list)
	if err != nil {
		return fmt.Errorf("listing: %w", err)
	}
	all(objects)
	events, err := cache.ToListerWatcherWithContext(from).WatchWithContext(ctx, metav1.ListOptions{ResourceVersion: accessor.GetResourceVersion()})
	if err != nil {
		return fmt.Errorf("watching: %w", err)
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, open := <-events.ResultChan():
			if !open || event.Type == watch.Error {
				return fmt.Errorf("watching: it has ended: %v", event.Object)
			}
			one(event.Type, event.Object)
		}
	}
}
