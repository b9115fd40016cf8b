package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// lookEvery is how often doubts are judged and API servers are looked after.
const lookEvery = 100 * time.Millisecond

// askWithin bounds a question to an API server.
const askWithin = 2 * time.Second

// watcher feeds the checker from every API server of a fleet, by clients of its
// own: nothing of the product is between.
type watcher struct {
	hub     client.Client
	members map[string]client.Client
	pings   map[string]func(context.Context) error
	// audits are the files of the members' audit logs.
	audits map[string]string

	mu      sync.Mutex
	checker *checker
	// simulated members are asked and not watched: they tell by themselves.
	simulated map[string]*memory
	// ignore: what the hub's watch says is not heard, while its API server is
	// being put back to an earlier time.
	ignore bool

	ctx  context.Context
	stop context.CancelFunc
	done sync.WaitGroup
	// hubCache ends the hub's watches alone, memberCaches those of members.
	hubCache     func()
	memberCaches map[string]func()
}

// clientOf is the administrator of a control plane.
func clientOf(cp *harness.ControlPlane) (client.Client, error) {
	c, err := client.New(cp.Config, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", cp.Name, err)
	}
	return c, nil
}

// watchFleet watches until stop.
func watchFleet(fleet *harness.Fleet) (*watcher, error) {
	ctx, stop := context.WithCancel(context.Background())
	w := &watcher{members: map[string]client.Client{}, pings: map[string]func(context.Context) error{}, audits: map[string]string{},
		checker: newChecker(), simulated: map[string]*memory{}, memberCaches: map[string]func(){}, ctx: ctx, stop: stop}
	var err error
	if w.hub, err = clientOf(fleet.Hub.ControlPlane); err != nil {
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
	w.done.Go(func() { w.look(ctx) })
	return w, nil
}

func (w *watcher) close() {
	w.stop()
	w.done.Wait()
}

// heard runs what the checker is told, with the time.
func (w *watcher) heard(tell func(c *checker, now time.Time)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tell(w.checker, time.Now())
}

// watchHub watches sessions and homes on the hub.
func (w *watcher) watchHub(ctx context.Context, cp *harness.ControlPlane) error {
	ctx, w.hubCache = context.WithCancel(ctx)
	w.ping(hubName, cp)
	return w.watch(ctx, cp, map[client.Object]func(client.Object, bool){
		&v1alpha1.VDISession{}: func(o client.Object, gone bool) {
			w.heard(func(c *checker, now time.Time) {
				switch {
				case w.ignore:
				case gone:
					c.sessionGone(now, o.GetUID())
				default:
					c.session(now, *sessionOf(o.(*v1alpha1.VDISession)))
				}
			})
		},
		&v1alpha1.VDIHome{}: func(o client.Object, gone bool) {
			w.heard(func(c *checker, now time.Time) {
				if gone && !w.ignore {
					c.homeGone(now, homeFact{Cluster: hubName, UID: o.GetUID(), Name: o.GetName()})
				}
			})
		},
	})
}

func (w *watcher) watchMember(ctx context.Context, name string, cp *harness.ControlPlane) error {
	ctx, w.memberCaches[name] = context.WithCancel(ctx)
	w.ping(name, cp)
	return w.watch(ctx, cp, map[client.Object]func(client.Object, bool){
		&v1alpha1.SessionAssignment{}: func(o client.Object, gone bool) {
			f := assignmentOf(name, o.(*v1alpha1.SessionAssignment))
			w.heard(func(c *checker, now time.Time) {
				if gone {
					c.assignmentGone(now, *f)
				} else {
					c.assignment(now, *f)
				}
			})
		},
		&corev1.Pod{}: func(o client.Object, gone bool) {
			f := podOf(name, o.(*corev1.Pod))
			if f.Session == "" {
				return
			}
			w.heard(func(c *checker, now time.Time) {
				if gone {
					c.podGone(now, *f)
				} else {
					c.pod(now, *f)
				}
			})
		},
		&corev1.PersistentVolumeClaim{}: func(o client.Object, gone bool) {
			if session := o.GetLabels()[v1alpha1.LabelSessionUID]; gone && o.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy {
				w.heard(func(c *checker, now time.Time) {
					c.homeGone(now, homeFact{Cluster: name, UID: o.GetUID(), Name: o.GetName(), Session: types.UID(session)})
				})
			}
		},
	})
}

// watchAnew watches a member whose API server was away for so long that an informer
// would take its time to come back. What went meanwhile is not told any more.
func (w *watcher) watchAnew(m *harness.Member) error {
	w.memberCaches[m.Name]()
	w.heard(func(c *checker, _ time.Time) { c.forget(m.Name) })
	return w.watchMember(w.ctx, m.Name, m.ControlPlane)
}

// ping is looked at by others once there is one.
func (w *watcher) ping(name string, cp *harness.ControlPlane) {
	if w.pings[name] != nil {
		return
	}
	w.pings[name] = func(ctx context.Context) error {
		return cp.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
}

// watch has every change of some kinds told, whatever becomes of the API server.
func (w *watcher) watch(ctx context.Context, cp *harness.ControlPlane, kinds map[client.Object]func(o client.Object, gone bool)) error {
	c, err := cache.New(cp.Config, cache.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		return fmt.Errorf("watching %s: %w", cp.Name, err)
	}
	w.done.Go(func() { _ = c.Start(ctx) })
	for kind, tell := range kinds {
		informer, err := c.GetInformer(ctx, kind)
		if err != nil {
			return fmt.Errorf("watching %s: %w", cp.Name, err)
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(o any) { tell(o.(client.Object), false) },
			UpdateFunc: func(_, o any) { tell(o.(client.Object), false) },
			DeleteFunc: func(o any) {
				if last, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
					o = last.Obj
				}
				tell(o.(client.Object), true)
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

// look judges doubts, and finds out which watches are blind.
func (w *watcher) look(ctx context.Context) {
	blindUntil := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
		var group sync.WaitGroup
		var mu sync.Mutex
		for name, ping := range w.pings {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, askWithin)
				defer cancel()
				err := ping(ctx)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					// An informer comes back from a failure within seconds only.
					blindUntil[name] = time.Now().Add(2 * watchLag)
				}
				w.heard(func(c *checker, now time.Time) { c.sight(name, now.After(blindUntil[name])) })
			})
		}
		group.Wait()
		w.judge(ctx)
	}
}

// judge asks the API servers about every doubt that is due.
func (w *watcher) judge(ctx context.Context) {
	var due map[string]*doubt
	w.heard(func(c *checker, now time.Time) { due = c.due(now) })
	for key, d := range due {
		ctx, cancel := context.WithTimeout(ctx, askWithin)
		proven, err := d.proof(ctx, w)
		cancel()
		if err == nil {
			w.heard(func(c *checker, now time.Time) { c.judge(now, key, d, proven) })
		}
	}
}

// violations are all that were found so far.
func (w *watcher) violations() []violation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]violation(nil), w.checker.broken...)
}

// undecided is an error while anything is in doubt.
func (w *watcher) undecided() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, d := range w.checker.doubts {
		if d.still() {
			return errors.New("in doubt: " + d.text)
		}
	}
	return nil
}

func sessionOf(s *v1alpha1.VDISession) *sessionFact {
	f := &sessionFact{
		UID: s.UID, Name: s.Namespace + "/" + s.Name, Epoch: s.Status.Epoch, Deleting: s.DeletionTimestamp != nil,
		Suspended: s.Spec.OperatingMode == v1alpha1.ModeSuspended, Attempt: s.Spec.Attempt,
		Releasing: map[string]int64{}, Superseded: map[string]int64{}, PodReady: podReady(s.Status.Conditions),
	}
	if p := s.Status.Placement; p != nil {
		f.Cluster, f.Placed = p.ClusterName, p.Epoch
	}
	for _, r := range s.Status.Releasing {
		f.Releasing[r.ClusterName] = r.Epoch
		if r.Superseded {
			f.Superseded[r.ClusterName] = r.Epoch
		}
	}
	return f
}

func assignmentOf(cluster string, a *v1alpha1.SessionAssignment) *assignmentFact {
	return &assignmentFact{
		Cluster: cluster, Session: a.Spec.Session.UID, Name: a.Namespace + "/" + a.Name, Epoch: a.Spec.Epoch,
		Attempt: a.Spec.Attempt, Revision: a.Spec.TemplateRevision, User: a.Spec.User, Mode: string(a.Spec.FailoverMode),
		Suspended: a.Spec.RunState == v1alpha1.ModeSuspended, Failed: a.Status.Failure != nil,
		Lapsed:   lapsed(a),
		Deleting: a.DeletionTimestamp != nil, PodReady: podReady(a.Status.Conditions),
		Desktop: fmt.Sprint(a.Spec.Desktop.Env),
	}
}

// lapsed: the lease is over by the member's account, or was, and the hub has not affirmed
// the placement since. A held desktop runs on, whatever its member asks.
func lapsed(a *v1alpha1.SessionAssignment) bool {
	pod := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionPodReady)
	over := pod != nil && pod.Reason == v1alpha1.ReasonLeaseExpired
	return (over || a.Status.Lapse > a.Spec.Lapse) && a.Spec.FailoverMode != v1alpha1.FailoverHold
}

func podOf(cluster string, p *corev1.Pod) *podFact {
	epoch, _ := strconv.ParseInt(p.Annotations[v1alpha1.AnnotationEpoch], 10, 64)
	attempt, _ := strconv.ParseInt(p.Annotations[v1alpha1.AnnotationAttempt], 10, 64)
	over := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	return &podFact{
		Cluster: cluster, UID: p.UID, Namespace: p.Namespace, Name: p.Name,
		Session: types.UID(p.Labels[v1alpha1.LabelSessionUID]), Epoch: epoch, Attempt: attempt,
		Runs:    slices.ContainsFunc(p.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil }),
		Ended:   over && p.DeletionTimestamp == nil,
		Stopped: over && p.DeletionTimestamp != nil,
	}
}
