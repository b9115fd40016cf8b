package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// unloadedSessions are created one at a time, after some that each member warms up with: an
// agent starts its informers of a namespace with the first.
const (
	unloadedSessions = 100
	warmUp           = 10
)

// unloaded measures how long one session takes on a fleet that does nothing else.
func (m *measurement) unloaded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	w, err := m.hub.Watch(ctx, &v1alpha1.VDISessionList{}, client.InNamespace(namespace))
	if err != nil {
		return fmt.Errorf("watching the sessions: %w", err)
	}
	defer w.Stop()
	took := make([]time.Duration, 0, unloadedSessions)
	for i := range unloadedSessions + warmUp {
		s := newSession(i, m.template)
		s.Name = fmt.Sprintf("unloaded-%03d", i)
		began := time.Now()
		if err := m.hub.Create(ctx, s); err != nil {
			return fmt.Errorf("creating a session: %w", err)
		}
		if err := awaitPhase(ctx, w.ResultChan(), s.Name, v1alpha1.PhaseRunning); err != nil {
			return err
		}
		if i >= warmUp {
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	fmt.Printf("\none session at a time, create to Running, %d times: p50 %s, p99 %s\n", unloadedSessions,
		took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond))
	return m.deleteAll(ctx)
}

// awaitPhase reads a watch until a session has a phase.
func awaitPhase(ctx context.Context, events <-chan watch.Event, name string, phase v1alpha1.SessionPhase) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not %s: %w", name, phase, ctx.Err())
		case e, open := <-events:
			if !open {
				return fmt.Errorf("%s is not %s: the API server ended the watch", name, phase)
			}
			if s, ok := e.Object.(*v1alpha1.VDISession); ok && s.Name == name && s.Status.Phase == phase {
				return nil
			}
		}
	}
}
