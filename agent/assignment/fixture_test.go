package assignment

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/restriction"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// results collects the results for the hub.
type results struct {
	mu     sync.Mutex
	lines  []string
	marked int
}

func (t *results) Add(r *fleetv1.OrderResult) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := fmt.Sprintf("%s e%d", strings.TrimPrefix(r.Code.String(), "RESULT_CODE_"), r.Epoch)
	if r.Reason != "" {
		line += " " + r.Reason
	}
	t.lines = append(t.lines, line)
}
func (t *results) Mark(link.Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.marked++
}
func (t *results) take() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := t.lines
	t.lines = nil
	return out
}

// lackingCapacity is the reason for which the capacity refuses assignments; empty for none.
type lackingCapacity string

func (c lackingCapacity) Refuses(*v1alpha1.SessionAssignment) string { return string(c) }

func (lackingCapacity) Stored(*v1alpha1.SessionAssignment) uint64 { return 7 }

func assignment(uid string, epoch int64, user string) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: "desk-" + uid}}
	a.Spec = v1alpha1.SessionAssignmentSpec{
		Session: v1alpha1.SessionReference{Namespace: "users", Name: "desk", UID: types.UID(uid)},
		Epoch:   epoch, User: user, Desktop: v1alpha1.Desktop{Image: "x", Port: 80},
	}
	return a
}

func order(a *v1alpha1.SessionAssignment) *fleetv1.Order {
	return &fleetv1.Order{Order: &fleetv1.Order_Assign{Assign: convert.AssignmentToWire(a)}}
}

func forceOrder(uid string, upTo int64) *fleetv1.Order {
	o := withdrawOrder(uid, upTo)
	o.GetWithdraw().Force = true
	return o
}

func withdrawOrder(uid string, upTo int64) *fleetv1.Order {
	return &fleetv1.Order{Order: &fleetv1.Order_Withdraw{Withdraw: &fleetv1.Withdrawal{
		SessionUid: uid, Namespace: "desks", Name: "desk-" + uid, UpToEpoch: upTo}}}
}

// fixture is a Store with an API server in memory, whose controller the test runs.
type fixture struct {
	*Store
	t       *testing.T
	results *results
	live    client.Client
	ctx     context.Context
	// created counts created objects, for their UIDs.
	created int
	// prune removes fields that the API server does not have, if set.
	prune func(*v1alpha1.SessionAssignment)
	// fail, if set, is the API server's answer to writes, and refuse that to writes of a
	// kind.
	fail   error
	refuse func(kind string) error
}

// verdict returns the API server's error of a write, if any.
func (b *fixture) verdict(o client.Object) error {
	if b.fail == nil && b.refuse != nil {
		return b.refuse(reflect.TypeOf(o).Elem().Name())
	}
	return b.fail
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	b := &fixture{t: t, results: &results{}, ctx: t.Context()}
	objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "desks",
		Labels: map[string]string{v1alpha1.LabelAdmitSessions: "true"}}})
	b.live = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).
		WithIndex(&corev1.Secret{}, render.AssignmentIndex, func(o client.Object) []string { return render.AssignmentOf(o) }).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if err := b.verdict(o); err != nil {
					return err
				}
				b.created++
				o.SetUID(types.UID(fmt.Sprintf("uid-%d", b.created)))
				o.SetGeneration(1)
				return c.Create(ctx, o, opts...)
			},
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if err := b.verdict(o); err != nil {
					return err
				}
				if a, ok := o.(*v1alpha1.SessionAssignment); ok {
					if b.prune != nil {
						b.prune(a)
					}
					before := &v1alpha1.SessionAssignment{}
					if err := c.Get(ctx, client.ObjectKeyFromObject(a), before); err == nil && convert.SpecHash(&before.Spec) != convert.SpecHash(&a.Spec) {
						a.Generation = before.Generation + 1
					}
				}
				return c.Update(ctx, o, opts...)
			},
		}).Build()
	b.Store = New(Options{Client: b.live, Live: b.live, Reporter: b.results, Capacity: lackingCapacity(""),
		Restrictions: &restriction.Settings{AgentNamespace: "agents", OpenNetwork: true, PrivateEgress: true}})
	b.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.UID](50*time.Millisecond, 30*time.Second))
	return b
}

// work reconciles the next session of the queue.
func (b *fixture) work(ctx context.Context) {
	uid, _ := b.queue.Get()
	defer b.queue.Done(uid)
	result, err := b.Reconcile(ctx, uid)
	if err != nil {
		log.FromContext(ctx).Error(err, "Reconciler error")
		b.queue.AddRateLimited(uid)
		return
	}
	b.queue.Forget(uid)
	if result.RequeueAfter > 0 {
		b.queue.AddAfter(uid, result.RequeueAfter)
	}
}

// run processes all that is queued now, and returns the results.
func (b *fixture) run() []string {
	for b.queue.Len() > 0 {
		b.work(b.ctx)
	}
	return b.results.take()
}

func (b *fixture) expect(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.run()); diff != "" {
		b.t.Errorf("results (-want +got):\n%s", diff)
	}
}

func (b *fixture) get(uid string) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{}
	if err := b.live.Get(b.t.Context(), types.NamespacedName{Namespace: "desks", Name: "desk-" + uid}, a); err != nil {
		return nil
	}
	return a
}

// release is what agent/session does once the last Pod is gone, and the
// event that follows.
func (b *fixture) release(uid string) {
	a := b.get(uid)
	a.Finalizers = nil
	if err := b.live.Update(b.t.Context(), a); err != nil {
		b.t.Fatal(err)
	}
	b.deleted(a)
}
