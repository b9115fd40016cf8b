package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// bareWorkers is the number of concurrent writers, as many as the hub and the agents
// have workers together.
const bareWorkers = 32

// bare is the baseline of the burst: a loop of clients with precomputed placements
// and statuses, which writes the same objects as often to the same API servers,
// without hub and agents.
type bare struct {
	hub      client.Client
	members  []client.WithWatch
	sessions int
	template *v1alpha1.VDITemplate
	pods     []*readiness
}

// bareTimes are how long the bare loops took; zero for one that was not run.
type bareTimes struct{ same, floor time.Duration }

// compare prints how much longer a burst took.
func (t bareTimes) compare(took time.Duration) {
	if t.same > 0 {
		fmt.Printf("\nthe burst took %.2f times as long as the bare loop that writes the same objects\n", took.Seconds()/t.same.Seconds())
	}
	if t.floor > 0 {
		fmt.Printf("the burst took %.2f times as long as the bare loop of Pod, Service and Ingress\n", took.Seconds()/t.floor.Seconds())
	}
}

// runBare measures the time until every Pod is ready and its session Running, without hub and
// agents, and before, with floor, that until every Pod with a Service and an Ingress is ready.
func runBare(ctx context.Context, sessions int, template string, floor bool, options harness.Options) (times bareTimes, err error) {
	fmt.Println("bare client loops, without hub and agents")
	options.NoFleetProcesses = true
	fleet, err := harness.Start(ctx, options)
	if err != nil {
		return times, err
	}
	defer func() { err = errors.Join(err, fleet.Stop()) }()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	b, err := newBare(ctx, fleet, sessions, template)
	if err != nil {
		return times, err
	}
	if floor {
		if times.floor, err = b.run(ctx, "Pod, Service and Ingress", b.peer); err != nil {
			return times, err
		}
		if err := b.clear(ctx); err != nil {
			return times, err
		}
	}
	times.same, err = b.run(ctx, "the same objects", b.session)
	return times, err
}

// run measures one loop.
func (b *bare) run(ctx context.Context, what string, one func(context.Context, int) error) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	group, gctx := errgroup.WithContext(ctx)
	for _, r := range b.pods {
		group.Go(func() error { return r.watch(gctx) })
	}
	work, wctx := errgroup.WithContext(gctx)
	work.SetLimit(bareWorkers)
	for i := range b.sessions {
		work.Go(func() error { return one(wctx, i) })
	}
	if err := work.Wait(); err != nil {
		cancel()
		return 0, errors.Join(err, group.Wait())
	}
	took := time.Since(began)
	cancel()
	_ = group.Wait() // the watches end with the context
	fmt.Printf("\n%s: %d in %s: %.0f a second\n", what, b.sessions, round(took), float64(b.sessions)/took.Seconds())
	return took, nil
}

func newBare(ctx context.Context, fleet *harness.Fleet, sessions int, template string) (*bare, error) {
	b := &bare{sessions: sessions}
	hub, err := clientOf(fleet.Hub.ControlPlane)
	if err != nil {
		return nil, err
	}
	b.hub = hub
	root, err := harness.Root()
	if err != nil {
		return nil, err
	}
	if err := fleet.Hub.ControlPlane.ApplyFile(ctx, filepath.Join(root, "deploy/samples/templates.yaml")); err != nil {
		return nil, err
	}
	b.template = &v1alpha1.VDITemplate{}
	if err := hub.Get(ctx, types.NamespacedName{Name: template}, b.template); err != nil {
		return nil, err
	}
	for _, m := range fleet.Members {
		c, err := clientOf(m.ControlPlane)
		if err != nil {
			return nil, err
		}
		shared := &v1alpha1.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
		shared.Spec.Desktop.Port, shared.Spec.Desktop.NetworkPolicy = b.template.Spec.Port, b.template.Spec.NetworkPolicy
		for _, o := range []client.Object{render.NetworkPolicy(shared, render.Network{}), render.DisruptionBudget(namespace)} {
			if err := c.Create(ctx, o); err != nil {
				return nil, fmt.Errorf("creating what desktops share: %w", err)
			}
		}
		b.members = append(b.members, c)
		b.pods = append(b.pods, &readiness{client: c, ready: map[string]chan struct{}{}})
	}
	return b, nil
}

// session creates one session as hub and agent do: its access secret, placement and
// status on the hub, whose admission policy adds the finalizer; its assignment
// with children and status in the member.
func (b *bare) session(ctx context.Context, i int) error {
	member, pods := b.members[i%len(b.members)], b.pods[i%len(b.members)]
	s := newSession(i, b.template.Name)
	if err := b.hub.Create(ctx, s); err != nil {
		return fmt.Errorf("creating a session: %w", err)
	}
	name := v1alpha1.AssignmentName(s.Name, s.UID)
	access := v1alpha1.SecretPayload{Name: name + "-access", Version: "bare", Type: corev1.SecretTypeBasicAuth, Data: map[string][]byte{
		corev1.BasicAuthUsernameKey: []byte("desktop"), corev1.BasicAuthPasswordKey: []byte("open sesame"),
	}}
	if err := b.hub.Create(ctx, secretOf(access, namespace, name, s.UID)); err != nil {
		return fmt.Errorf("creating an access secret: %w", err)
	}
	s.Status.Resources, s.Status.TemplateRevision = b.template.Spec.Resources.Default, "bare"
	s.Status.Placement = &v1alpha1.Placement{ClusterName: "bare", ClusterUID: "bare", Epoch: 1, PlacementTime: metav1.Now()}
	s.Status.Epoch, s.Status.Phase = 1, v1alpha1.PhaseCreating
	if err := patchStatus(ctx, b.hub, s, s.Status); err != nil {
		return err
	}
	a := assignment.Render(s, &b.template.Spec, "bare.example.com", secret.Set{Access: &access})
	a.Finalizers = []string{v1alpha1.AssignmentFinalizer}
	ready := pods.expect(a.Name)
	if err := member.Create(ctx, a); err != nil {
		return fmt.Errorf("creating an assignment: %w", err)
	}
	before := []client.Object{secretOf(access, namespace, access.Name, s.UID)}
	if config := render.ConfigMap(a); config != nil {
		before = append(before, config)
	}
	if err := createAll(ctx, member, before...); err != nil {
		return err
	}
	if err := runDesktop(ctx, member, desktopOf(a), ready); err != nil {
		return err
	}
	a.Status.State = v1alpha1.AssignmentActive
	if err := patchStatus(ctx, member, a, a.Status); err != nil {
		return err
	}
	s.Status.Phase = v1alpha1.PhaseRunning
	return patchStatus(ctx, b.hub, s, s.Status)
}

// peer creates what any operator must: a Pod, a Service and an Ingress.
func (b *bare) peer(ctx context.Context, i int) error {
	member, pods := b.members[i%len(b.members)], b.pods[i%len(b.members)]
	s := newSession(i, b.template.Name)
	s.UID = types.UID(s.Name)
	s.Status.Resources = b.template.Spec.Resources.Default
	s.Status.Placement = &v1alpha1.Placement{ClusterName: "bare", ClusterUID: "bare", Epoch: 1}
	spec := b.template.Spec.DeepCopy()
	spec.Files, spec.Access = nil, v1alpha1.Access{}
	a := assignment.Render(s, spec, "bare.example.com", secret.Set{})
	desktop := desktopOf(a)
	for _, o := range desktop {
		o.SetOwnerReferences(nil) // there is no assignment
	}
	return runDesktop(ctx, member, desktop, pods.expect(a.Name))
}

// desktopOf renders Pod, Service and Ingress.
func desktopOf(a *v1alpha1.SessionAssignment) []client.Object {
	network := render.Network{}
	pod := render.Pod(a)
	render.Isolate(pod, render.NetworkPolicy(a, network))
	return []client.Object{pod, render.Service(a), render.Ingress(a, network)}
}

// runDesktop creates a desktop, and waits until its Pod is ready.
func runDesktop(ctx context.Context, member client.Client, desktop []client.Object, ready <-chan struct{}) error {
	if err := createAll(ctx, member, desktop...); err != nil {
		return err
	}
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func createAll(ctx context.Context, c client.Client, objects ...client.Object) error {
	for _, o := range objects {
		if err := c.Create(ctx, o); err != nil {
			return fmt.Errorf("creating a child: %w", err)
		}
	}
	return nil
}

// clear deletes what peer has created.
func (b *bare) clear(ctx context.Context) error {
	for _, member := range b.members {
		for _, o := range []client.Object{&networkingv1.Ingress{}, &corev1.Service{}, &corev1.Pod{}} {
			err := member.DeleteAllOf(ctx, o, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy})
			if err != nil {
				return fmt.Errorf("deleting a child: %w", err)
			}
		}
	}
	return nil
}

func secretOf(p v1alpha1.SecretPayload, namespace, name string, session types.UID) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelSessionUID: string(session)}},
		Type:       p.Type, Data: p.Data,
	}
}

func patchStatus(ctx context.Context, c client.Client, o client.Object, status any) error {
	raw, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	return c.Status().Patch(ctx, o, client.RawPatch(types.MergePatchType, raw))
}

// readiness reports when Pods of one member are ready.
type readiness struct {
	client client.WithWatch
	mu     sync.Mutex
	ready  map[string]chan struct{}
}

func (r *readiness) expect(pod string) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ready[pod] = make(chan struct{})
	return r.ready[pod]
}

// watch closes the channels of ready Pods until the context ends.
func (r *readiness) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		w, err := r.client.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		for e := range w.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok && e.Type != watch.Deleted && podReady(pod) {
				r.report(pod.Name)
			}
		}
		w.Stop()
	}
	return nil
}

func (r *readiness) report(pod string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.ready[pod]; ok {
		close(c)
		delete(r.ready, pod)
	}
}

func podReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
