package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// Sessions of kinds that fit on an empty node of one member alone: all but as many as it has
// nodes are pending.
const (
	kinds       = 100
	labelScarce = "scale-fleet"
)

func kindName(i int) string { return fmt.Sprintf("whole-node-%03d", i%kinds) }

// createKinds creates the templates of the pending sessions.
func (f *fleet) createKinds(ctx context.Context) error {
	for i := range kinds {
		t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: kindName(i)}}
		t.Spec.Image, t.Spec.Port = "registry.example.com/large:1", 6901
		t.Spec.ClusterSelector = &metav1.LabelSelector{MatchLabels: map[string]string{labelScarce: "last"}}
		requests, err := convert.ResourcesFromWire(map[string]string{
			"cpu": "60", "memory": fmt.Sprintf("%dMi", 1024+i), "ephemeral-storage": "1Gi",
		})
		if err != nil {
			return err
		}
		t.Spec.Resources.Default = requests
		if err := f.hub.Create(ctx, t); err != nil {
			return fmt.Errorf("creating a template: %w", err)
		}
	}
	return nil
}

// pending creates a tenth as many sessions again, of which only one for each node of one member
// fits, and then frees one slot.
func (f *fleet) pending(ctx context.Context) error {
	count := nodes + max(kinds, f.options.sessions/10)
	names := map[string]bool{}
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range count {
		s := f.session("large", i)
		s.Spec.Template = kindName(i)
		names[s.Name] = true
		group.Go(func() error { return f.hub.Create(creating, s) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating sessions: %w", err)
	}
	began := time.Now()
	var last *v1alpha1.VDISession
	runs := func(s *v1alpha1.VDISession) bool {
		if !names[s.Name] || !running(s) || s.DeletionTimestamp != nil {
			return false
		}
		last = s
		return true
	}
	if err := f.watch("large", runs).await(ctx, nodes); err != nil {
		return err
	}
	unschedulable := func(s *v1alpha1.VDISession) bool {
		return names[s.Name] && s.Status.Placement == nil && s.Status.Message != ""
	}
	if err := f.watch("large", unschedulable).await(ctx, count-nodes); err != nil {
		return err
	}
	fmt.Printf("  %d of %d run, and the others show why not, after %s\n", nodes, count, round(time.Since(began)))
	used, freed := f.cpu(), time.Now()
	delete(names, last.Name)
	if err := f.hub.Delete(ctx, last); err != nil {
		return err
	}
	if err := f.watch("large", runs).await(ctx, nodes); err != nil {
		return err
	}
	fmt.Printf("  a freed slot is in use after %s, 1.5 to 4.5 s of which are the simulated stop's and start's; the hub used %s of CPU\n", round(time.Since(freed)), round(f.cpu()-used))
	return nil
}
