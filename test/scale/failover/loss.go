package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

const (
	namespace = "desktops"
	template  = "failover-plain"
)

// sessionMillicores is the CPU that each session requests.
const sessionMillicores = 100

// stepTimeout is how long a step may take beyond the configured waits before it
// fails.
const stepTimeout = 5 * time.Minute

// loss is a member that dies, and what a watcher of the hub observes.
type loss struct {
	fleet    *harness.Fleet
	hub      client.WithWatch
	dying    *harness.Member
	sessions int
	// atOneTarget is how many sessions only one member can take; 0 if all others can take all.
	atOneTarget int
	factor      float64
	began       time.Time // of the fleet
	died        time.Time

	mu sync.Mutex // guards the fields below
	// detected is when the hub reported the member Unreachable.
	detected time.Time
	seen     map[string]*way
}

// way records when a session of the dead member was placed in another, stored
// there, and Running.
type way struct {
	decided, assigned, running time.Time
	// target is the other member, and onNewNode whether it had to add a node.
	target    string
	onNewNode bool
	// placed is the time of the placement in the status, in whole seconds: the hub may write it later.
	placed time.Time
}

func newLoss(ctx context.Context, f *harness.Fleet, sessions int, factor float64) (*loss, error) {
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return nil, err
	}
	cfg := *f.Hub.ControlPlane.Config
	cfg.QPS, cfg.Burst = 2000, 4000
	hub, err := client.NewWithWatch(&cfg, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	l := &loss{fleet: f, hub: hub, dying: f.Members[0], sessions: sessions, factor: factor, began: time.Now(), seen: map[string]*way{}}
	t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: template}}
	t.Spec.Image, t.Spec.Port = "registry.example.com/desktop:1", 6901
	t.Spec.Resources.Default = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(sessionMillicores, resource.DecimalSI), corev1.ResourceMemory: resource.MustParse("64Mi")}
	t.Spec.Timeout.Default, t.Spec.Timeout.Max = "8h", "12h"
	if err := hub.Create(ctx, t); err != nil {
		return nil, fmt.Errorf("making the template: %w", err)
	}
	return l, nil
}

func (l *loss) scaled(d time.Duration) time.Duration { return time.Duration(float64(d) * l.factor) }

// fill creates all sessions in the member that will die, and waits until they run.
func (l *loss) fill(ctx context.Context) error {
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(32)
	for i := range l.sessions {
		group.Go(func() error {
			return l.hub.Create(gctx, &v1alpha1.VDISession{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("failover-%05d", i)},
				Spec: v1alpha1.SessionSpec{
					User: fmt.Sprintf("user-%d@example.com", i), Template: template,
					Placement: v1alpha1.SessionPlacement{PreferredRegions: []string{l.dying.Spec.Region}},
				},
			})
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("creating sessions: %w", err)
	}
	return l.until(ctx, stepTimeout, "they run", func(ctx context.Context) (string, error) {
		list := &v1alpha1.VDISessionList{}
		if err := l.hub.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return "", err
		}
		there, other := 0, 0
		for i := range list.Items {
			switch s := &list.Items[i]; {
			case s.Status.Phase != v1alpha1.PhaseRunning:
			case s.Status.Placement.ClusterName == l.dying.Name:
				there++
			default:
				other++
			}
		}
		switch {
		case there == l.sessions:
			fmt.Printf("\n%d sessions run in %s\n", there, l.dying.Name)
			return "", nil
		case there+other == l.sessions:
			return "", fmt.Errorf("%d of %d sessions have no capacity in %s: start it with more --nodes", other, l.sessions, l.dying.Name)
		}
		return fmt.Sprintf("%d of %d do", there+other, l.sessions), nil
	})
}

// awaitRegain waits until the leader has led for R and moves sessions by time.
func (l *loss) awaitRegain(ctx context.Context) error {
	left := time.Until(l.began.Add(l.scaled(regain)))
	fmt.Printf("the hub has led for less than R = %s: it moves nothing by time for %s\n", l.scaled(regain), max(0, left).Round(time.Second))
	return pause(ctx, left)
}

// lose ends every process of the member at once.
func (l *loss) lose(context.Context) error {
	l.died = time.Now()
	if err := l.dying.PowerOff(); err != nil {
		return err
	}
	fmt.Printf("%s is dead: all of its processes ended within %s\n", l.dying.Name, time.Since(l.died).Round(time.Millisecond))
	return nil
}

// watch records what the hub's API server shows, until all sessions run elsewhere.
func (l *loss) watch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.scaled(unreachable+restartAfter)+stepTimeout)
	defer cancel()
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return each(gctx, l.hub, &v1alpha1.MemberClusterList{}, l.locked(l.member), func() bool { return !l.detected.IsZero() })
	})
	group.Go(func() error {
		return each(gctx, l.hub, &v1alpha1.VDISessionList{}, l.locked(l.session), func() bool { return l.count().running == l.sessions })
	})
	group.Go(func() error {
		for l.count().running < l.sessions {
			if err := pause(gctx, 5*time.Second); err != nil {
				return err
			}
			n := l.count()
			fmt.Printf("  +%.0fs: %d rescheduled, %d assigned, %d Running\n", time.Since(l.died).Seconds(), n.decided, n.assigned, n.running)
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("watching, with %+v of %d sessions: %w\n%s", l.count(), l.sessions, err, l.late(context.WithoutCancel(ctx)))
	}
	return nil
}

// late returns how many sessions run now by the API server, and the status of one that
// does not: more than the watch has shown means that the watch missed some.
func (l *loss) late(ctx context.Context) string {
	list := &v1alpha1.VDISessionList{}
	if err := l.hub.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return err.Error()
	}
	running, example := 0, ""
	for i := range list.Items {
		s := &list.Items[i]
		if s.Status.Phase == v1alpha1.PhaseRunning {
			running++
			continue
		}
		example = fmt.Sprintf("; %s is %s: %s (placement %+v)", s.Name, s.Status.Phase, s.Status.Message, s.Status.Placement)
	}
	return fmt.Sprintf("%d are Running by now%s", running, example)
}

// each calls see with every changed object of a kind until done. It watches again
// whenever the API server ends a watch.
func each(ctx context.Context, cluster client.WithWatch, kind client.ObjectList, see func(any, time.Time), done func() bool) error {
	for {
		w, err := cluster.Watch(ctx, kind)
		if err != nil {
			return err
		}
		over, err := read(ctx, w, see, done)
		w.Stop()
		if err != nil || over {
			return err
		}
	}
}

func read(ctx context.Context, w watch.Interface, see func(any, time.Time), done func() bool) (over bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case e, open := <-w.ResultChan():
			if !open {
				return false, nil
			}
			if e.Type == watch.Error {
				return false, apierrors.FromObject(e.Object)
			}
			see(e.Object, time.Now())
			if done() {
				return true, nil
			}
		}
	}
}

// locked returns a function that records an object while the loss is locked.
func (l *loss) locked(see func(any, time.Time)) func(any, time.Time) {
	return func(o any, now time.Time) {
		l.mu.Lock()
		defer l.mu.Unlock()
		see(o, now)
	}
}

func (l *loss) member(o any, now time.Time) {
	mc, is := o.(*v1alpha1.MemberCluster)
	if !is || mc.Name != l.dying.Name || !l.detected.IsZero() {
		return
	}
	if c := meta.FindStatusCondition(mc.Status.Conditions, v1alpha1.ConditionReady); c != nil && c.Reason == v1alpha1.ReasonUnreachable {
		l.detected = now
	}
}

func (l *loss) session(o any, now time.Time) {
	s, is := o.(*v1alpha1.VDISession)
	if !is || s.Status.Placement == nil || s.Status.Placement.ClusterName == l.dying.Name {
		return
	}
	w := l.seen[s.Name]
	if w == nil {
		w = &way{decided: now, target: s.Status.Placement.ClusterName, onNewNode: onNewNode(s), placed: s.Status.Placement.PlacementTime.Time}
		l.seen[s.Name] = w
	}
	if w.assigned.IsZero() && meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionAssigned) {
		w.assigned = now
	}
	if w.running.IsZero() && !w.assigned.IsZero() && s.Status.Phase == v1alpha1.PhaseRunning {
		w.running = now
	}
}

type progress struct{ decided, assigned, running int }

func (l *loss) count() (n progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.seen {
		n.decided++
		if !w.assigned.IsZero() {
			n.assigned++
		}
		if !w.running.IsZero() {
			n.running++
		}
	}
	return n
}

// until polls until the condition holds, and prints every 5 s what is lacking.
func (l *loss) until(ctx context.Context, limit time.Duration, what string, holds func(context.Context) (lacking string, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for printed := time.Now(); ; {
		lacking, err := holds(ctx)
		if err != nil || lacking == "" {
			return err
		}
		if time.Since(printed) > 5*time.Second {
			fmt.Println("  " + lacking)
			printed = time.Now()
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return fmt.Errorf("waiting until %s: %s: %w", what, lacking, err)
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
