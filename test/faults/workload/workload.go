package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Meta returns the metadata of a session.
func Meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: Namespace, Name: name}
}

// Namespace is the namespace of all sessions.
const Namespace = "desktops"

// PlainTemplate has no home: its sessions may restart in any member. HomeTemplate has one.
const (
	PlainTemplate = "faults-plain"
	HomeTemplate  = "faults-homed"
)

// minPause and maxPause bound the random pause between two steps.
const (
	minPause = 20 * time.Millisecond
	maxPause = 120 * time.Millisecond
)

// Workload changes sessions as users do, with choices drawn from a seed. It ignores errors of an
// API server that is down: the next step is another change.
type Workload struct {
	hub    client.Client
	prefix string
	size   int

	mu     sync.Mutex // guards random and Changes
	random *rand.Rand
	stop   context.CancelFunc
	done   sync.WaitGroup
	// Changes counts the changes by kind.
	Changes map[string]int
}

// New returns a workload of size sessions.
func New(hub client.Client, prefix string, size int, random *rand.Rand) *Workload {
	return &Workload{hub: hub, prefix: prefix, size: size, random: random, Changes: map[string]int{}}
}

// Start makes changes until Stop is called.
func (w *Workload) Start(ctx context.Context) {
	ctx, w.stop = context.WithCancel(ctx)
	w.done.Go(func() {
		for ctx.Err() == nil {
			w.step(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(minPause + time.Duration(w.draw(int(maxPause-minPause)))):
			}
		}
	})
}

// Stop ends the changes and waits for those under way.
func (w *Workload) Stop() {
	if w.stop != nil {
		w.stop()
	}
	w.done.Wait()
}

// Go runs a function in the background; Stop waits for it.
func (w *Workload) Go(f func()) { w.done.Go(f) }

func (w *Workload) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(n)
}

// step makes one change of one session. It draws all random numbers first, so that they do not
// depend on the fleet's responses.
func (w *Workload) step(ctx context.Context) {
	slot, dice, detail := w.draw(w.size), w.draw(100), w.draw(1000)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s := &v1alpha1.VDISession{}
	err := w.hub.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: w.name(slot)}, s)
	what := ""
	switch {
	case client.IgnoreNotFound(err) != nil:
		return
	case err != nil:
		what, err = "create", w.hub.Create(ctx, w.newSession(slot, detail))
	case s.DeletionTimestamp != nil || dice < 25:
		return
	case dice < 50:
		what, err = "delete", w.hub.Delete(ctx, s)
	default:
		before := s.DeepCopy()
		what = edit(s, dice, detail)
		err = w.hub.Patch(ctx, s, client.MergeFrom(before))
	}
	if err == nil {
		w.mu.Lock()
		w.Changes[what]++
		w.mu.Unlock()
	}
}

// edit changes a session as its user might.
func edit(s *v1alpha1.VDISession, dice, detail int) string {
	switch {
	case s.Spec.OperatingMode == v1alpha1.ModeSuspended:
		s.Spec.OperatingMode = v1alpha1.ModeRunning
		return "resume"
	case dice < 70:
		s.Spec.OperatingMode = v1alpha1.ModeSuspended
		return "suspend"
	case dice < 78:
		s.Spec.Attempt++
		return "again"
	case dice < 90:
		s.Spec.Timeout = v1alpha1.Duration(fmt.Sprintf("%dm", 60+detail%600))
		return "extend"
	default:
		s.Spec.Env = []v1alpha1.EnvVar{{Name: "DETAIL", Value: fmt.Sprint(detail)}}
		return "edit"
	}
}

func (w *Workload) name(slot int) string { return fmt.Sprintf("%s-%02d", w.prefix, slot) }

// newSession returns the session of a slot, whose user keeps it over its generations.
func (w *Workload) newSession(slot, detail int) *v1alpha1.VDISession {
	s := NewSession(w.name(slot), detail)
	s.Spec.User = fmt.Sprintf("user-%d@example.com", slot)
	return s
}

// NewSession returns a session of a user of its own, since a policy limits the sessions of each; detail
// decides its template and failover mode.
func NewSession(name string, detail int) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: name},
		Spec:       v1alpha1.SessionSpec{User: name + "@example.com", Template: PlainTemplate},
	}
	switch detail % 5 {
	case 0:
		s.Spec.Template = HomeTemplate
	case 1:
		s.Spec.Failover.Mode = v1alpha1.FailoverFence
	case 2:
		s.Spec.Failover.Mode = v1alpha1.FailoverHold
	}
	return s
}

// Fill creates the sessions of the first n slots.
func (w *Workload) Fill(ctx context.Context, n int) error {
	for slot := range n {
		if err := client.IgnoreAlreadyExists(w.hub.Create(ctx, w.newSession(slot, w.draw(1000)))); err != nil {
			return fmt.Errorf("creating sessions: %w", err)
		}
	}
	return nil
}
