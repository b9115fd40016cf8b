package capacity

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Run watches the member until the context ends. The first report follows once all of it
// was read.
func (w *Watcher) Run(ctx context.Context) error {
	assignments, err := w.options.Assignments.GetInformer(ctx, &v1alpha1.SessionAssignment{})
	if err != nil {
		return fmt.Errorf("watching assignments: %w", err)
	}
	registration, err := assignments.AddEventHandler(w.assignmentHandler())
	if err != nil {
		return fmt.Errorf("watching assignments: %w", err)
	}
	defer func() { _ = assignments.RemoveEventHandler(registration) }()
	synced, stop, err := w.watchMember(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if !cache.WaitForCacheSync(ctx.Done(), append(synced, registration.HasSynced)...) {
		return nil
	}
	w.update(func(*Model) { w.synced = true })
	w.loop(ctx)
	return nil
}

// Start calls Run, for the manager.
func (w *Watcher) Start(ctx context.Context) error { return w.Run(ctx) }

// loop publishes changes, and collects them for a while: a burst of a thousand makes a few
// reports. The first change after a quiet time waits as long, so that none waits longer.
func (w *Watcher) loop(ctx context.Context) {
	recheck := time.NewTicker(w.options.Recheck)
	defer recheck.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-recheck.C:
			w.recheck(ctx)
			continue
		case <-w.changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(w.options.Debounce):
		}
		if w.publish() {
			w.options.OnChange()
		}
	}
}
