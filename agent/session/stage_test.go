package session

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/activity"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// stage is a member whose time, cache and refusals the test decides.
type stage struct {
	t      *testing.T
	r      *Reconciler
	client client.WithWatch
	clock  *testclock.FakePassiveClock
	events *events.FakeRecorder
	key    types.NamespacedName

	mu   sync.Mutex // of what the concurrent steps write
	made int
	// writes are the reconciler's, such as "create Pod".
	writes []string
	// refuse answers a write instead of the API server, where it returns an
	// error.
	refuse func(write string) error
	// slow has a deleted Pod run until the test ends it.
	// Otherwise it is gone at once.
	slow bool
	// blind has the cache show no Pod.
	blind bool
	// stale answers a read of the cache, where it returns true.
	stale func(key client.ObjectKey, o client.Object) (answered bool, err error)
}

func newStage(t *testing.T, a *api.SessionAssignment, others ...client.Object) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	// The fake client maps all types of the scheme on every write: Kubernetes' all take a
	// third of the tests' time.
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme, api.AddToScheme, gatewayv1.Install,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &stage{t: t, clock: testclock.NewFakePassiveClock(noon), events: events.NewFakeRecorder(100), key: client.ObjectKeyFromObject(a)}
	s.client = fake.NewClientBuilder().WithScheme(scheme).WithTypeConverters(managedfields.NewDeducedTypeConverter()).WithObjects(append(others, a)...).
		WithStatusSubresource(a, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}).
		WithIndex(a, claimIndex, claimName).WithIndex(&corev1.Pod{}, render.AssignmentIndex, byAssignment).
		WithIndex(&corev1.Pod{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).Build()
	s.r = New(Dependencies{
		Client:        interceptor.NewClient(s.client, s.interceptors()),
		APIReader:     s.client,
		Reconciled:    func(types.NamespacedName) {},
		Recorder:      s.events,
		Clock:         s.clock,
		Nodes:         healthyNodes{},
		Activity:      noProbes{},
		ServerVersion: func() (*version.Info, error) { return &version.Info{Major: "1", Minor: "36"}, nil },
		Lease:         &fixedLease{},
		Options: Options{
			CleanupDeadline: 2 * time.Minute,
			LostAfter:       5 * time.Minute,
			RetryLimits:     observe.RetryLimits{FailAfter: 5 * time.Minute, Restarts: 5, Endings: 5},
		},
	})
	s.r.routes.Start = func() (client.Reader, error) { return s.r.Client, nil }
	return s
}

// healthyNodes all answer.
type healthyNodes struct{}

func (healthyNodes) Node(string) observe.Node { return observe.Node{Known: true, Ready: true} }

// noProbes has no results.
type noProbes struct{}

func (noProbes) Watch(activity.Target) activity.Result { return activity.Result{} }
func (noProbes) Forget(types.NamespacedName)           {}

// trace has the reconciler record spans.
func (s *stage) trace(tracer *tracing.Tracer) {
	s.r.Trace = tracer
}

func (s *stage) interceptors() interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, pod := o.(*corev1.Pod); pod && s.blind {
				return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
			}
			if s.stale != nil {
				if answered, err := s.stale(key, o); answered {
					return err
				}
			}
			return c.Get(ctx, key, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods && s.blind {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			o.SetUID(types.UID(fmt.Sprintf("uid-%d", s.next())))
			o.SetCreationTimestamp(metav1.NewTime(s.clock.Now()))
			if err := s.write("create", o); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := s.write("patch", o); err != nil {
				return err
			}
			return c.Patch(ctx, o, patch, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if err := s.write("delete", o); err != nil {
				return err
			}
			err := c.Delete(ctx, o, opts...)
			if pod, ok := o.(*corev1.Pod); ok && err == nil && !s.slow {
				s.stop(pod.DeepCopy())
			}
			return err
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			if err := s.write(sub, o); err != nil {
				return err
			}
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
	}
}

// stop removes the agent's finalizer from a Pod.
func (s *stage) stop(pod *corev1.Pod) {
	s.t.Helper()
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || !controllerutil.RemoveFinalizer(pod, api.PodFinalizer) {
		return
	}
	if err := s.client.Update(s.t.Context(), pod); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) write(verb string, o client.Object) error {
	name := fmt.Sprintf("%T", o)
	write := verb + " " + name[strings.LastIndexByte(name, '.')+1:]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes = append(s.writes, write)
	if s.refuse == nil {
		return nil
	}
	return s.refuse(write)
}

// next returns the number of the next created object.
func (s *stage) next() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.made++
	return s.made
}

// pass reconciles once and returns when the next pass is due.
func (s *stage) pass() time.Duration {
	s.t.Helper()
	result, err := s.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: s.key})
	if err != nil {
		s.t.Fatal(err)
	}
	return result.RequeueAfter
}

// after advances time, and reconciles.
func (s *stage) after(d time.Duration) time.Duration {
	s.t.Helper()
	s.clock.SetTime(s.clock.Now().Add(d))
	return s.pass()
}

// inAnyOrder compares writes of which some are concurrent.
var inAnyOrder = cmpopts.SortSlices(func(a, b string) bool { return a < b })

// wrote returns the writes since its last call.
func (s *stage) wrote() []string {
	writes := s.writes
	s.writes = nil
	return writes
}

func (s *stage) count(write string) int {
	n := 0
	for _, w := range s.writes {
		if w == write {
			n++
		}
	}
	return n
}

func (s *stage) get(o client.Object) {
	s.t.Helper()
	if err := s.client.Get(context.Background(), s.key, o); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) gone(o client.Object) bool {
	return apierrors.IsNotFound(s.client.Get(context.Background(), s.key, o))
}

func (s *stage) assignment() *api.SessionAssignment {
	s.t.Helper()
	var a api.SessionAssignment
	s.get(&a)
	return &a
}

func (s *stage) condition(kind string) metav1.Condition {
	s.t.Helper()
	if c := meta.FindStatusCondition(s.assignment().Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// setPod changes the Pod as a kubelet does.
func (s *stage) setPod(change func(*corev1.Pod)) {
	s.t.Helper()
	var p corev1.Pod
	s.get(&p)
	change(&p)
	if err := s.client.Status().Update(context.Background(), &p); err != nil {
		s.t.Fatal(err)
	}
}

// bind binds the Pod to its node.
func (s *stage) bind() {
	s.t.Helper()
	var p corev1.Pod
	s.get(&p)
	p.Spec.NodeName = "n1"
	if err := s.client.Update(context.Background(), &p); err != nil {
		s.t.Fatal(err)
	}
}

func makeReady(p *corev1.Pod) {
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}
