package watch

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/reconnect"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// interval is how often suspicions are checked and API servers are probed.
const interval = 100 * time.Millisecond

// readTimeout bounds one read of an API server.
const readTimeout = 2 * time.Second

// Watcher feeds the checker from every API server of a fleet, with clients of its own.
type Watcher struct {
	Hub     client.Client
	members map[string]client.Client
	pings   map[string]func(context.Context) error
	// audits are the paths of the members' audit logs.
	audits map[string]string

	mu      sync.Mutex
	checker *checker.Checker
	// simulated members have no watch: they report each change, and are read directly.
	simulated map[string]SimulatedMember
	// ignore drops what the hub's watch delivers while its API server is being restored to an
	// earlier time.
	ignore bool

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup
	// hubCache ends the hub's watches alone, memberCaches those of members.
	hubCache     func()
	memberCaches map[string]func()
}

// SimulatedMember is a member without an API server.
type SimulatedMember interface {
	Assignments() map[types.UID]*v1alpha1.SessionAssignment
}

// clientOf returns a client with an administrator's rights.
func clientOf(cp *harness.ControlPlane) (client.Client, error) {
	c, err := client.New(cp.Config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", cp.Name, err)
	}
	return c, nil
}

// Start watches a fleet until Close.
func Start(fleet *harness.Fleet) (*Watcher, error) {
	ctx, stop := context.WithCancel(context.Background())
	w := &Watcher{members: map[string]client.Client{}, pings: map[string]func(context.Context) error{}, audits: map[string]string{},
		checker: checker.New(), simulated: map[string]SimulatedMember{}, memberCaches: map[string]func(){}, ctx: ctx, stop: stop}
	var err error
	if w.Hub, err = clientOf(fleet.Hub.ControlPlane); err != nil {
		return nil, err
	}
	if err := w.watchHub(ctx, fleet.Hub.ControlPlane); err != nil {
		return nil, err
	}
	for _, m := range fleet.Members {
		w.audits[m.Name] = m.ControlPlane.AuditLog()
		if w.members[m.Name], err = clientOf(m.ControlPlane); err != nil {
			return nil, err
		}
		if err := w.watchMember(ctx, m.Name, m.ControlPlane); err != nil {
			return nil, err
		}
	}
	w.done.Go(func() { w.loop(ctx) })
	return w, nil
}

// Close ends all watches.
func (w *Watcher) Close() {
	w.stop()
	w.done.Wait()
}

// With locks the checker, and calls a function with it and the time.
func (w *Watcher) With(observe func(c *checker.Checker, now time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	observe(w.checker, time.Now())
}

// watchHub watches sessions and homes on the hub.
func (w *Watcher) watchHub(ctx context.Context, cp *harness.ControlPlane) error {
	ctx, w.hubCache = context.WithCancel(ctx)
	w.ping(checker.Hub, cp)
	return w.watch(ctx, cp, map[client.Object]func(client.Object, bool){
		&v1alpha1.VDISession{}: func(o client.Object, gone bool) {
			w.With(func(c *checker.Checker, now time.Time) {
				switch {
				case w.ignore:
				case gone:
					c.SessionDeleted(now, o.GetUID())
				default:
					c.ObserveSession(now, *sessionOf(o.(*v1alpha1.VDISession)))
				}
			})
		},
		&v1alpha1.VDIHome{}: func(o client.Object, gone bool) {
			w.With(func(c *checker.Checker, now time.Time) {
				if gone && !w.ignore {
					c.HomeDeleted(now, checker.HomeState{Cluster: checker.Hub, UID: o.GetUID(), Name: o.GetName()})
				}
			})
		},
	})
}

func (w *Watcher) watchMember(ctx context.Context, name string, cp *harness.ControlPlane) error {
	ctx, w.memberCaches[name] = context.WithCancel(ctx)
	w.ping(name, cp)
	kinds := map[client.Object]func(client.Object, bool){
		&v1alpha1.SessionAssignment{}: func(o client.Object, gone bool) {
			w.AssignmentChanged(name, o.(*v1alpha1.SessionAssignment), gone)
		},
		&corev1.Pod{}: func(o client.Object, gone bool) {
			f := podOf(name, o.(*corev1.Pod))
			if f.Session == "" {
				return
			}
			w.With(func(c *checker.Checker, now time.Time) {
				if gone {
					c.PodDeleted(now, *f)
				} else {
					c.ObservePod(now, *f)
				}
			})
		},
		&corev1.PersistentVolumeClaim{}: func(o client.Object, gone bool) {
			if session := o.GetLabels()[v1alpha1.LabelSessionUID]; gone && o.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy {
				w.With(func(c *checker.Checker, now time.Time) {
					c.HomeDeleted(now, checker.HomeState{Cluster: name, UID: o.GetUID(), Name: o.GetName(), Session: types.UID(session)})
				})
			}
		},
	}
	if cp.Karpenter != nil {
		kinds[nodeClaims()] = w.nodeChanged(name)
	}
	return w.watch(ctx, cp, kinds)
}

// WatchAgain replaces the watches of a member whose API server was down, and returns when they
// show its present state. Deletions meanwhile are not observed.
func (w *Watcher) WatchAgain(m *harness.Member) error {
	w.memberCaches[m.Name]()
	w.With(func(c *checker.Checker, _ time.Time) { c.Forget(m.Name) })
	return w.watchMember(w.ctx, m.Name, m.ControlPlane)
}

// HubRestored restores the hub's API server to an earlier time, and watches it again. It returns
// how many sessions the hub lost by that, and how many it has.
func (w *Watcher) HubRestored(ctx context.Context, cp *harness.ControlPlane, restore func() error) (lost, holds int, err error) {
	w.With(func(*checker.Checker, time.Time) { w.ignore = true })
	w.hubCache()
	if err := restore(); err != nil {
		return 0, 0, err
	}
	list := &v1alpha1.VDISessionList{}
	if err := w.Hub.List(ctx, list, client.InNamespace(workload.Namespace)); err != nil {
		return 0, 0, fmt.Errorf("reading what was restored: %w", err)
	}
	restored := map[types.UID]checker.SessionState{}
	for i := range list.Items {
		restored[list.Items[i].UID] = *sessionOf(&list.Items[i])
	}
	w.With(func(c *checker.Checker, _ time.Time) {
		c.Restored(restored)
		w.ignore = false
		for _, k := range c.Sessions() {
			if k.Lost {
				lost++
			}
		}
	})
	return lost, len(restored), w.watchHub(w.ctx, cp)
}

// ping sets the readiness probe of a cluster, once: other goroutines read it.
func (w *Watcher) ping(name string, cp *harness.ControlPlane) {
	if w.pings[name] != nil {
		return
	}
	w.pings[name] = func(ctx context.Context) error {
		return cp.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
}

// watch calls a function for every change of some kinds, until the context ends.
func (w *Watcher) watch(ctx context.Context, cp *harness.ControlPlane, kinds map[client.Object]func(o client.Object, gone bool)) error {
	c, err := reconnect.NewCache(cp.Config, cache.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return fmt.Errorf("watching %s: %w", cp.Name, err)
	}
	w.done.Go(func() { _ = c.Start(ctx) })
	for kind, observe := range kinds {
		informer, err := c.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watching %s: %w", cp.Name, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { observe(o.(client.Object), false) },
			UpdateFunc: func(_, o any) { observe(o.(client.Object), false) },
			DeleteFunc: func(o any) {
				if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				observe(o.(client.Object), true)
			},
		})
		if err != nil {
			return fmt.Errorf("watching %s: %w", cp.Name, err)
		}
	}
	if !c.WaitForCacheSync(ctx) {
		return fmt.Errorf("watching %s: %w", cp.Name, ctx.Err())
	}
	return nil
}

// loop resolves suspicions, and detects which watches are interrupted.
func (w *Watcher) loop(ctx context.Context) {
	interruptedUntil := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
		var group sync.WaitGroup
		var mu sync.Mutex
		for name, ping := range w.pings {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, readTimeout)
				defer cancel()
				err := ping(ctx)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					// An informer takes seconds to recover from a failure.
					interruptedUntil[name] = time.Now().Add(2 * checker.WatchLag)
				}
				w.With(func(c *checker.Checker, now time.Time) { c.SetReachable(name, now.After(interruptedUntil[name])) })
			})
		}
		group.Wait()
		w.resolve(ctx)
	}
}

// resolve confirms every suspicion that is due at the API servers.
func (w *Watcher) resolve(ctx context.Context) {
	var due map[string]*checker.Suspicion
	w.With(func(c *checker.Checker, now time.Time) { due = c.Due(now) })
	for key, d := range due {
		ctx, cancel := context.WithTimeout(ctx, readTimeout)
		proven, err := d.Confirm(ctx, w)
		cancel()
		if err == nil {
			w.With(func(c *checker.Checker, now time.Time) { c.Resolve(now, key, d, proven) })
		}
	}
}

// AddSimulated makes the watcher read a simulated member where it reads API servers.
func (w *Watcher) AddSimulated(name string, m SimulatedMember) {
	w.With(func(*checker.Checker, time.Time) { w.simulated[name] = m })
}

// RemoveSimulated removes a simulated member and what was observed of it.
func (w *Watcher) RemoveSimulated(name string) {
	w.With(func(c *checker.Checker, _ time.Time) {
		delete(w.simulated, name)
		c.Forget(name)
	})
}

// AssignmentChanged passes a change of an assignment to the checker.
func (w *Watcher) AssignmentChanged(member string, a *v1alpha1.SessionAssignment, deleted bool) {
	f := assignmentOf(member, a)
	w.With(func(c *checker.Checker, now time.Time) {
		if deleted {
			c.AssignmentDeleted(now, *f)
		} else {
			c.ObserveAssignment(now, *f)
		}
	})
}

// Violations returns the violations that were found so far.
func (w *Watcher) Violations() []checker.Violation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checker.Violations()
}

// Observations returns the number of the checker's observations.
func (w *Watcher) Observations() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checker.Observations()
}

// Undecided returns an error while any suspicion is unexplained.
func (w *Watcher) Undecided() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.checker.Undecided()
}
