package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// Bounds of docs/design.md, section 10.
const (
	hubWrites     = 4.0
	renewalBound  = 250 * time.Millisecond
	takeoverBound = 30 * time.Second
	startBound    = 30 * time.Second
	idleCores     = 0.1
	kibPerSession = 12.0
	// manySessions is from how many sessions on kibPerSession is enforced: with fewer, what
	// the hub needs without any counts more.
	manySessions = 100_000
)

// session returns a session that a step creates. Each step has its own users, with three sessions each:
// the default policy limits what a user has of all steps.
func (f *fleet) session(step string, i int) *v1alpha1.VDISession {
	user, namespaces := i/3, f.options.namespaces()
	return &v1alpha1.VDISession{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespaces[user%len(namespaces)], Name: fmt.Sprintf("%s-%06d", step, i), Labels: map[string]string{labelStep: step},
		},
		Spec: v1alpha1.SessionSpec{User: fmt.Sprintf("%s-%d@example.com", step, user), Template: templateName(i % f.options.templates)},
	}
}

// burst creates all sessions at once, and waits until all run.
func (f *fleet) burst(ctx context.Context) error {
	mark, err := harness.AuditMark(f.Hub.ControlPlane.AuditLog())
	if err != nil {
		return err
	}
	began := time.Now()
	watcher := f.watch("burst", running)
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return watcher.await(ctx, f.options.sessions) })
	both.Go(func() error {
		group, creating := errgroup.WithContext(ctx)
		group.SetLimit(32)
		for i := range f.options.sessions {
			group.Go(func() error { return f.hub.Create(creating, f.session("burst", i)) })
		}
		err := group.Wait()
		fmt.Printf("  %d sessions are created after %s\n", f.options.sessions, round(time.Since(began)))
		return err
	})
	if err := both.Wait(); err != nil {
		return err
	}
	took := time.Since(began)
	fmt.Printf("  all placed after %s: %.0f placements a second\n", round(watcher.placed.Sub(began)), float64(f.options.sessions)/watcher.placed.Sub(began).Seconds())
	half := watcher.half.Sub(began)
	fmt.Printf("  all Running after %s: %.0f a second, half of them after %s, %.2f of that\n",
		round(took), float64(f.options.sessions)/took.Seconds(), round(half), half.Seconds()/took.Seconds())
	counts, err := harness.CountWrites(f.Hub.ControlPlane.AuditLog(), harness.CountOptions{Offset: mark, Users: []string{harness.HubUser}})
	if err != nil {
		return err
	}
	writes := 0
	for _, c := range counts {
		if c.Resource != "memberclusters" && c.Resource != "vditemplates" {
			writes += c.Count
		}
	}
	atMost(f, "hub writes a session", float64(writes)/float64(f.options.sessions), hubWrites)
	f.created = f.options.sessions
	return nil
}

// watcher follows the sessions of the hub.
type watcher struct {
	f *fleet
	// step whose sessions are followed, or all if it is empty.
	step   string
	wanted func(*v1alpha1.VDISession) bool
	have   map[types.UID]bool
	seen   map[types.UID]bool
	// placed is when the last session was placed first, and half when half of the expected
	// ones were as wanted.
	placed, half time.Time
}

func running(s *v1alpha1.VDISession) bool { return s.Status.Phase == v1alpha1.PhaseRunning }

// watch counts the sessions of a step, or all if it is empty, for which wanted holds.
func (f *fleet) watch(step string, wanted func(*v1alpha1.VDISession) bool) *watcher {
	return &watcher{f: f, step: step, wanted: wanted, have: map[types.UID]bool{}, seen: map[types.UID]bool{}}
}

// await returns once wanted holds for that many sessions at once. It lists the sessions and then
// follows them from there: the initial events of a watch of 100,000 take longer than the API server
// waits for a client.
func (w *watcher) await(ctx context.Context, count int) error {
	from, err := w.f.eachSession(ctx, w.step, w.observe)
	if err != nil {
		return err
	}
	return w.follow(ctx, from, count)
}

// follow is await from a resource version, with all sessions observed as they were then.
func (w *watcher) follow(ctx context.Context, from string, count int) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	stream, err := watchtools.NewRetryWatcherWithContext(ctx, from, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return w.f.hub.Watch(ctx, &v1alpha1.VDISessionList{}, append(inStep(w.step), &client.ListOptions{Raw: &o})...)
		},
	})
	if err != nil {
		return fmt.Errorf("following the sessions: %w", err)
	}
	progress := time.NewTicker(30 * time.Second)
	defer progress.Stop()
	for !w.has(count) {
		select {
		case <-progress.C:
			fmt.Printf("    %d of %d, %d placed\n", len(w.have), count, len(w.seen))
		case e, open := <-stream.ResultChan():
			if !open {
				return fmt.Errorf("%d of %d sessions are as expected: %w", len(w.have), count, cmp.Or(ctx.Err(), errWatchEnded))
			}
			if s, ok := e.Object.(*v1alpha1.VDISession); ok {
				w.observe(s)
			}
		}
	}
	return nil
}

var errWatchEnded = errors.New("the watch has ended")

// has reports whether wanted holds for that many sessions, and notes when it does for half of them.
func (w *watcher) has(count int) bool {
	if w.half.IsZero() && len(w.have) >= count/2 {
		w.half = time.Now()
	}
	return len(w.have) == count
}

// inStep selects the sessions of a step, or all if it is empty.
func inStep(step string) []client.ListOption {
	if step == "" {
		return nil
	}
	return []client.ListOption{client.MatchingLabels{labelStep: step}}
}

// eachSession calls a function with every session of a step, or all if it is empty, and returns the
// resource version from which they can be followed. It begins again if the API server does not have
// the version of its first page any more: then it calls the function with a session a second time.
func (f *fleet) eachSession(ctx context.Context, step string, visit func(*v1alpha1.VDISession)) (from string, err error) {
	for next := client.Continue(""); ; {
		list := &v1alpha1.VDISessionList{}
		err := f.hub.List(ctx, list, append(inStep(step), client.Limit(1000), next)...)
		if apierrors.IsResourceExpired(err) {
			next = ""
			continue
		}
		if apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) {
			continue // the API server has the lowest priority, and the context ends
		}
		if err != nil {
			return "", fmt.Errorf("listing sessions: %w", err)
		}
		for i := range list.Items {
			visit(&list.Items[i])
		}
		if from = list.ResourceVersion; list.Continue == "" {
			return from, nil
		}
		next = client.Continue(list.Continue)
	}
}

func (w *watcher) observe(s *v1alpha1.VDISession) {
	if s.Status.Placement != nil && !w.seen[s.UID] {
		w.seen[s.UID], w.placed = true, time.Now()
	}
	if w.wanted(s) {
		w.have[s.UID] = true
	} else {
		delete(w.have, s.UID)
	}
}
