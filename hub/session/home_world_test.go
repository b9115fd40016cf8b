package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/session/status"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// homeWorld is an API server, a leader whose cache lags behind it, one member, and
// sessions of one user. Every write, also of an earlier leader, waits until the test
// applies it, drops it, or drops its response, in any order.
type homeWorld struct {
	*rapid.T
	api    client.WithWatch
	clock  *clocktesting.FakeClock
	spec   *v1alpha1.TemplateSpec
	leader int
	// sessions, by name, and home are the leader's cache.
	sessions map[string]*v1alpha1.VDISession
	home     *v1alpha1.VDIHome
	// By session: what the member was ordered, whether its Pod runs, and the report
	// that the leader received last.
	ordered map[types.UID]ordered
	pods    map[types.UID]bool
	sent    map[types.UID]*v1alpha1.SessionAssignment
	ops     []*op
	uids    int
}

type ordered struct {
	run  status.Run
	idle bool
}

func (o ordered) hash() string { return fmt.Sprint(o.run, o.idle) }

// op is a reconcile in progress.
type op struct {
	leader int
	key    string
	// step is signaled when the op waits to write, or has ended.
	step  chan struct{}
	fate  chan fate
	ended bool
}

type fate string

const (
	lands      fate = "lands"
	isLost     fate = "is lost"
	losesReply fate = "lands, and its answer is lost"
)

var errLost = errors.New("the connection was lost")

func newHomeWorld(t *rapid.T) *homeWorld {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return &homeWorld{
		T: t,
		// The default converters are recreated, from all of Kubernetes' types, for
		// every client: a third of the test's time.
		api: fake.NewClientBuilder().WithScheme(scheme).WithTypeConverters(managedfields.NewDeducedTypeConverter()).
			WithStatusSubresource(&v1alpha1.VDISession{}).Build(),
		clock:    clocktesting.NewFakeClock(time.Unix(1_700_000_000, 0)),
		spec:     &v1alpha1.TemplateSpec{Home: v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser}},
		sessions: map[string]*v1alpha1.VDISession{}, ordered: map[types.UID]ordered{}, pods: map[types.UID]bool{},
		sent: map[types.UID]*v1alpha1.SessionAssignment{},
	}
}

// start runs f as the leader's reconcile of a key, of which there is one at a
// time, up to its first write.
func (w *homeWorld) start(key string, f func(r *Reconciler, live client.Reader)) {
	for _, o := range w.ops {
		if o.key == key && o.leader == w.leader {
			return
		}
	}
	o := &op{leader: w.leader, key: key, step: make(chan struct{}), fate: make(chan fate)}
	r := &Reconciler{Client: w.clientOf(o), Recorder: events.NewFakeRecorder(1000), Fleet: &oneMember{}, Cached: index.Of(), Reservations: &oneMember{}, Scheduler: noQueue{}, Orders: &assignment.Orders{}, Clock: w.clock}
	go func() {
		f(r, w.api)
		o.ended = true
		o.step <- struct{}{}
	}()
	w.ops = append(w.ops, o)
	w.awaitStep(o)
}

func (w *homeWorld) awaitStep(o *op) {
	<-o.step
	if o.ended {
		w.ops = slices.DeleteFunc(w.ops, func(x *op) bool { return x == o })
	}
}

func (w *homeWorld) decide(o *op, f fate) {
	o.fate <- f
	w.awaitStep(o)
}

// clientOf reads the leader's cache, and writes when the test releases the write.
func (w *homeWorld) clientOf(o *op) client.Client {
	gate := func(write func() error) error {
		o.step <- struct{}{}
		switch <-o.fate {
		case isLost:
			return errLost
		case losesReply:
			_ = write()
			return errLost
		}
		return write()
	}
	return interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			switch into := into.(type) {
			case *v1alpha1.VDISession:
				if s := w.sessions[key.Name]; s != nil {
					s.DeepCopyInto(into)
					return nil
				}
			case *v1alpha1.VDIHome:
				if w.home != nil {
					w.home.DeepCopyInto(into)
					return nil
				}
			}
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("any").GroupResource(), key.Name)
		},
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return gate(func() error { return c.Create(ctx, obj, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			return gate(func() error { return c.Update(ctx, obj, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, obj client.Object, opts ...client.SubResourceUpdateOption) error {
			return gate(func() error {
				// A real API server never reuses a resource version.
				if s := w.stored(obj.GetName()); s != nil && s.UID != obj.GetUID() {
					return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("vdisessions").GroupResource(), obj.GetName(), errLost)
				}
				return c.SubResource(sub).Update(ctx, obj, opts...)
			})
		},
	})
}

var homeSessions = []string{"one", "two"}

func (w *homeWorld) stored(name string) *v1alpha1.VDISession {
	s := &v1alpha1.VDISession{}
	if err := w.api.Get(context.Background(), types.NamespacedName{Namespace: "desktops", Name: name}, s); err != nil {
		return nil
	}
	return s
}

func (w *homeWorld) record() *v1alpha1.VDIHome {
	h := &v1alpha1.VDIHome{}
	key := types.NamespacedName{Namespace: "desktops", Name: v1alpha1.HomeName("desktops", "ann", "browser")}
	if err := w.api.Get(context.Background(), key, h); err != nil {
		return nil
	}
	return h
}

func (w *homeWorld) must(err error) {
	if err != nil {
		w.Fatal(err)
	}
}

func (w *homeWorld) create(name string) {
	w.uids++
	s := &v1alpha1.VDISession{}
	s.Namespace, s.Name, s.UID = "desktops", name, types.UID(fmt.Sprintf("%s-%d", name, w.uids))
	s.Finalizers = []string{v1alpha1.Finalizer}
	s.Spec.User, s.Spec.Template = "ann", "browser"
	s.Spec.FreshHome = rapid.Bool().Draw(w.T, "fresh")
	w.must(w.api.Create(context.Background(), s))
}

// reconcile runs the session controller, with capacity for every request.
func (w *homeWorld) reconcile(name string) {
	w.start("session "+name, func(r *Reconciler, _ client.Reader) {
		ctx := context.Background()
		s := &v1alpha1.VDISession{}
		if r.Client.Get(ctx, types.NamespacedName{Namespace: "desktops", Name: name}, s) != nil || !s.DeletionTimestamp.IsZero() {
			return
		}
		here := v1alpha1.ClusterRef{Name: "eu", UID: sessiontest.Here}
		in := &lifecycle.Input{
			Now: w.clock.Now(), Session: s, Members: map[types.UID]member.State{here.UID: {Health: health.Ready}},
			Template: lifecycle.Template{Run: w.spec, Current: &v1alpha1.VDITemplate{Spec: *w.spec}},
			Answer:   &scheduling.Answer{Decision: placement.Decision{Placed: true, Cluster: here, Reason: v1alpha1.ReasonPlaced}},
		}
		if w.home != nil {
			in.Home = w.home.DeepCopy()
		}
		if at, sent := s.Status.Placement, w.sent[s.UID]; at != nil && sent != nil {
			in.Reports = []*assignment.Report{{Ref: here, Assignment: sent.DeepCopy(), Proven: true}}
			in.Order = &assignment.Order{
				Hash: ordered{status.RunOf(at), at.Idle}.hash(), Spec: w.spec, Assignment: &v1alpha1.SessionAssignment{},
			}
		}
		plan := lifecycle.Next(in)
		plan.Waits, plan.Revision = "", "" // there is no scheduler, and no API server of revisions
		_ = r.apply(ctx, in, &plan, &attempt{})
	})
}

func (w *homeWorld) controlHome() {
	w.start("home", func(r *Reconciler, live client.Reader) {
		homes := &home.Reconciler{Client: r.Client, Live: live, Sessions: r, Members: &memberInMemory{}, Departed: func(types.NamespacedName, types.UID) bool { return false }, Gone: r.Fleet.Gone, Clock: r.Clock}
		_, _ = homes.Reconcile(context.Background(), ctrl.Request{})
	})
}

// order sends the member the desired state of a session in the API server, or the order
// to stop it.
func (w *homeWorld) order(name string) {
	s := w.stored(name)
	switch {
	case s == nil || s.Status.Placement == nil:
	case !s.DeletionTimestamp.IsZero():
		w.ordered[s.UID] = ordered{idle: true}
	default:
		w.ordered[s.UID] = ordered{status.RunOf(s.Status.Placement), s.Status.Placement.Idle}
	}
}

// kubelet starts or stops a session's Pod as ordered.
func (w *homeWorld) kubelet(uid types.UID) {
	w.pods[uid] = !w.ordered[uid].idle
}

func (w *homeWorld) report(uid types.UID) {
	a := &v1alpha1.SessionAssignment{}
	a.Annotations = map[string]string{v1alpha1.AnnotationSpecHash: w.ordered[uid].hash()}
	a.Spec.Epoch = w.ordered[uid].run.Epoch
	a.Status.ObservedGeneration, a.Status.State = 1, v1alpha1.AssignmentActive
	pod := metav1.Condition{Type: v1alpha1.ConditionPodReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonSuspended}
	if w.pods[uid] {
		pod.Status, pod.Reason = metav1.ConditionTrue, v1alpha1.ReasonPodReady
	}
	a.Status.Conditions = []metav1.Condition{pod}
	w.sent[uid] = a
}

// finish removes a deleted session, once its Pod is gone.
func (w *homeWorld) finish(name string) {
	s := w.stored(name)
	if s == nil || s.DeletionTimestamp.IsZero() || w.pods[s.UID] || s.Status.Placement != nil && !w.ordered[s.UID].idle {
		return
	}
	s.Finalizers = nil
	w.must(w.api.Update(context.Background(), s))
}

// catchUp brings parts of the leader's cache up to date.
func (w *homeWorld) catchUp() {
	if rapid.Bool().Draw(w.T, "home") {
		w.home = w.record()
	}
	for _, name := range homeSessions {
		if rapid.Bool().Draw(w.T, name) {
			w.sessions[name] = w.stored(name)
		}
	}
}

// newLeader replaces the leader by one whose cache may be older.
func (w *homeWorld) newLeader() {
	w.leader++
	for _, name := range homeSessions {
		if rapid.IntRange(0, 3).Draw(w.T, "old "+name) == 0 {
			delete(w.sessions, name)
		}
	}
	w.catchUp()
}

// quiet completes all reconciles in progress one after the other, as a cluster usually
// does.
func (w *homeWorld) quiet() {
	for len(w.ops) > 0 {
		w.decide(w.ops[0], lands)
	}
	for _, name := range homeSessions {
		w.finish(name)
		w.order(name)
		if s := w.stored(name); s != nil {
			if _, ordered := w.ordered[s.UID]; ordered {
				w.kubelet(s.UID)
				w.report(s.UID)
			}
		}
		w.sessions[name] = w.stored(name)
	}
	w.home = w.record()
	for _, name := range homeSessions {
		w.reconcile(name)
	}
	w.controlHome()
}

// oneWriter requires that the home is claimed by every session that is to run with it,
// and by every session of which a Pod runs.
func (w *homeWorld) oneWriter() {
	mountedBy := types.UID("")
	if h := w.record(); h != nil {
		mountedBy = h.Status.MountedByUID
	}
	for _, name := range homeSessions {
		if s := w.stored(name); s != nil && status.ToRun(s) && s.UID != mountedBy {
			w.Fatalf("session %s is to run with the home of %q", s.UID, mountedBy)
		}
	}
	for uid, runs := range w.pods {
		if runs && uid != mountedBy {
			w.Fatalf("a Pod of %s runs with the home of %q", uid, mountedBy)
		}
	}
}

func (w *homeWorld) end() {
	for len(w.ops) > 0 {
		w.decide(w.ops[0], isLost)
	}
}
