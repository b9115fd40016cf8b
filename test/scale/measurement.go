package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

const namespace = "desktops"

// measurement is one burst and its cost.
type measurement struct {
	fleet    *harness.Fleet
	hub      client.WithWatch
	sessions int
	template string
	marks    map[string]int64
	// cpu of each of the fleet's processes, and of all others, before the burst.
	cpu    map[string]time.Duration
	theirs time.Duration
	// took is the time from the first creation until the last session is Running.
	took   time.Duration
	broken []error
}

func newMeasurement(ctx context.Context, f *harness.Fleet, sessions int, template string) (*measurement, error) {
	hub, err := clientOf(f.Hub.ControlPlane)
	if err != nil {
		return nil, err
	}
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	if err := f.Hub.ControlPlane.ApplyFile(ctx, filepath.Join(root, "deploy/samples/templates.yaml")); err != nil {
		return nil, err
	}
	m := &measurement{fleet: f, hub: hub, sessions: sessions, template: template}
	return m, m.available(ctx)
}

// clientOf returns an administrator's client of a control plane, in effect without rate limits.
func clientOf(cp *harness.ControlPlane) (client.WithWatch, error) {
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return nil, err
	}
	cfg := *cp.Config
	cfg.QPS, cfg.Burst = 2000, 4000
	return client.NewWithWatch(&cfg, client.Options{Scheme: clientgoscheme.Scheme})
}

// available waits until every member can run the template.
func (m *measurement) available(ctx context.Context) error {
	for {
		t := &v1alpha1.VDITemplate{}
		if err := m.hub.Get(ctx, types.NamespacedName{Name: m.template}, t); err != nil {
			return err
		}
		if int(t.Status.AvailableClusters) == len(m.fleet.Members) {
			return nil
		}
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// create creates all sessions at once and waits until each is Running.
func (m *measurement) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	var err error
	if m.marks, err = m.mark(); err != nil {
		return err
	}
	m.cpu, m.theirs = m.cpuTimes(), m.controlPlanes()
	// The watch is read from the start: the API server ends one that lags.
	var running map[string]time.Time
	placed := newPlacements()
	watching, wctx := errgroup.WithContext(ctx)
	watching.Go(func() (err error) {
		running, err = m.awaitRunning(wctx, placed)
		return err
	})
	began := time.Now()
	var mu sync.Mutex
	created := map[string]time.Time{}
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range m.sessions {
		group.Go(func() error {
			s := newSession(i, m.template)
			mu.Lock()
			created[s.Name] = time.Now()
			mu.Unlock()
			return m.hub.Create(gctx, s)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating sessions: %w", err)
	}
	accepted := time.Since(began)
	if err := watching.Wait(); err != nil {
		return err
	}
	took := make([]time.Duration, 0, len(running))
	for name, at := range running {
		took = append(took, at.Sub(created[name]))
	}
	slices.Sort(took)
	all := time.Since(began)
	fmt.Printf("\n%d sessions created in %s; all Running after %s: %.0f sessions a second\n", m.sessions, round(accepted), round(all), float64(m.sessions)/all.Seconds())
	m.took = all
	placing := placed.last.Sub(began)
	fmt.Printf("all placed after %s: %.0f placements a second, while the members were at work\n", round(placing), float64(len(placed.at))/placing.Seconds())
	fmt.Printf("create to Running, seen by a watcher of the hub: p50 %s, p99 %s, max %s\n", round(took[len(took)/2]), round(took[len(took)*99/100]), round(took[len(took)-1]))
	return nil
}

// sessionsPerUser is how many sessions share the two writes of their user's Role and
// RoleBinding.
const sessionsPerUser = 3

func newSession(i int, template string) *v1alpha1.VDISession {
	return &v1alpha1.VDISession{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("scale-%05d", i)},
		Spec:       v1alpha1.SessionSpec{User: fmt.Sprintf("user-%d@example.com", i/sessionsPerUser), Template: template},
	}
}

// awaitRunning returns the time at which each session was first seen Running, and
// records the placements. It watches again whenever the API server ends a watch,
// and so misses none.
func (m *measurement) awaitRunning(ctx context.Context, placed *placements) (map[string]time.Time, error) {
	running := map[string]time.Time{}
	for len(running) < m.sessions {
		w, err := m.hub.Watch(ctx, &v1alpha1.VDISessionList{}, client.InNamespace(namespace))
		if err != nil {
			return nil, fmt.Errorf("%d of %d sessions are Running: %w", len(running), m.sessions, err)
		}
		err = m.note(ctx, w, running, placed)
		w.Stop()
		if err != nil {
			return nil, fmt.Errorf("%d of %d sessions are Running: %w", len(running), m.sessions, err)
		}
	}
	return running, nil
}

// note records the events of one watch until all sessions run or the watch ends.
func (m *measurement) note(ctx context.Context, w watch.Interface, running map[string]time.Time, placed *placements) error {
	progress := time.NewTicker(5 * time.Second)
	defer progress.Stop()
	for len(running) < m.sessions {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-progress.C:
			fmt.Printf("  %d of %d Running\n", len(running), m.sessions)
		case e, open := <-w.ResultChan():
			if !open {
				return nil
			}
			s, ok := e.Object.(*v1alpha1.VDISession)
			if !ok {
				return fmt.Errorf("watching the sessions: %w", apierrors.FromObject(e.Object))
			}
			placed.see(s)
			if _, seen := running[s.Name]; !seen && s.Status.Phase == v1alpha1.PhaseRunning {
				running[s.Name] = time.Now()
			}
		}
	}
	return nil
}

// claim records a missed goal.
func (m *measurement) claim(holds bool, format string, args ...any) {
	if !holds {
		m.broken = append(m.broken, fmt.Errorf(format, args...))
	}
}

func (m *measurement) verdict() error {
	if len(m.broken) > 0 {
		return fmt.Errorf("goals missed: %w", errors.Join(m.broken...))
	}
	fmt.Println("\nAll goals in counts are met.")
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Millisecond) }
