package clusterautoscaler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"github.com/vdi-fleet/vdi-fleet/proto/reconnect"
)

// User is the user of the autoscaler and its cloud in audit logs.
const User = "cluster-autoscaler"

const (
	// registerEvery is how often the cloud registers the nodes that are due.
	registerEvery = 100 * time.Millisecond
	// repeatEvent is after how long an event of a Pod is recorded again.
	repeatEvent = 30 * time.Second
)

// Autoscaler is the autoscaler of one cluster, and its cloud.
type Autoscaler struct {
	client   kubernetes.Interface
	options  Options
	cloud    *cloud
	nodes    listers.NodeLister
	pods     listers.PodLister
	recorder record.EventRecorder

	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	scans *scans // nil while the autoscaler does not run
}

// scans is a run of the autoscaler, with what it has in memory only.
type scans struct {
	stop     context.CancelFunc
	done     sync.WaitGroup
	last     *report
	backoffs map[string]*backoff
	// failures counts those in a row, by group.
	failures map[string]int
	// events are the last ones of Pods.
	events map[types.UID]podEvent
}

type podEvent struct {
	message string
	at      time.Time
}

// Start starts an autoscaler and its cloud, which run until Stop even if ctx ends. The options are complete.
func Start(ctx context.Context, config *rest.Config, options Options) (*Autoscaler, error) {
	client, err := kubernetes.NewForConfig(reconnect.Config(config))
	if err != nil {
		return nil, fmt.Errorf("starting cluster-autoscaler: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	a := &Autoscaler{
		client: client, options: options, cloud: newCloud(),
		nodes: factory.Core().V1().Nodes().Lister(), pods: factory.Core().V1().Pods().Lister(),
	}
	for _, informer := range []cache.SharedIndexInformer{factory.Core().V1().Nodes().Informer(), factory.Core().V1().Pods().Informer()} {
		// Tests stop API servers: these errors are expected, and the watch is retried.
		if err := informer.SetWatchErrorHandler(func(*cache.Reflector, error) {}); err != nil {
			return nil, fmt.Errorf("starting cluster-autoscaler: %w", err)
		}
	}
	ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	events := record.NewBroadcaster(record.WithContext(ctx))
	events.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events(metav1.NamespaceAll)})
	a.recorder = events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "cluster-autoscaler"})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	a.done.Go(func() { every(ctx, registerEvery, func() { a.register(ctx) }) })
	a.done.Go(func() {
		<-ctx.Done()
		events.Shutdown()
		factory.Shutdown()
	})
	a.Resume()
	return a, nil
}

// Stop ends the autoscaler and its cloud, if there are any.
func (a *Autoscaler) Stop() {
	if a == nil {
		return
	}
	a.Kill()
	a.stop()
	a.done.Wait()
}

// Kill ends the autoscaler, until Resume. Its cloud continues.
func (a *Autoscaler) Kill() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.scans != nil {
		a.scans.stop()
		a.scans.done.Wait()
		a.scans = nil
	}
}

// Resume starts the autoscaler again, without what it had in memory.
func (a *Autoscaler) Resume() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.scans != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &scans{stop: stop, backoffs: map[string]*backoff{}, failures: map[string]int{}, events: map[types.UID]podEvent{}}
	a.scans = s
	s.done.Go(func() { every(ctx, a.options.ScanInterval, func() { a.scan(ctx, s) }) })
}

// SetFault sets the fault of a group's cloud; Fault{} removes it. Nodes that were requested before are not
// affected.
func (a *Autoscaler) SetFault(group string, f Fault) { a.cloud.setFault(group, f) }

// every calls do now and at an interval, until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// register creates the nodes that are due. It is tried again if the API server does not answer.
func (a *Autoscaler) register(ctx context.Context) {
	for _, i := range a.cloud.due(time.Now()) {
		g := a.group(i.group)
		_, err := a.client.CoreV1().Nodes().Create(ctx, g.shape(i.node), metav1.CreateOptions{})
		if err == nil || apierrors.IsAlreadyExists(err) {
			a.cloud.setCreated(i.node)
		}
	}
}

func (a *Autoscaler) group(name string) *Group {
	for i := range a.options.Groups {
		if a.options.Groups[i].Name == name {
			return &a.options.Groups[i]
		}
	}
	return nil
}

// scan adds the nodes that pending Pods need, and writes the status.
func (a *Autoscaler) scan(ctx context.Context, s *scans) {
	v, err := a.look(s, time.Now())
	if err != nil {
		return
	}
	decided := decide(v)
	for i := range decided.increases {
		up := &decided.increases[i]
		a.cloud.request(a.group(up.group), up.to-up.from, v.now)
		for _, g := range v.groups {
			if g.Name == up.group {
				g.target = up.to
			}
		}
		for _, p := range up.pods {
			s.event(a.recorder, p, "TriggeredScaleUp", fmt.Sprintf("pod triggered scale-up: [{%s %d->%d (max: %d)}]", up.group, up.from, up.to, up.most), v.now)
		}
	}
	for _, p := range v.pods {
		if why, ok := decided.helpless[p.UID]; ok {
			s.event(a.recorder, p, "NotTriggerScaleUp", "pod didn't trigger scale-up: "+why, v.now)
		}
	}
	s.last = reportOf(v, s.last)
	a.write(ctx, s.last) // a failed write is repeated by the next scan
}

// look returns what exists now, after the failures of the cloud were taken into account.
func (a *Autoscaler) look(s *scans, now time.Time) (*view, error) {
	nodes, err := a.nodes.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	pods, err := a.pods.List(labels.Everything())
	if err != nil {
		return nil, err
	}
	exists := map[string]bool{}
	for _, n := range nodes {
		exists[n.Name] = true
	}
	instances := a.cloud.observe(func(node string) bool { return exists[node] })
	for group := range instances.registered {
		delete(s.failures, group)
		delete(s.backoffs, group)
	}
	for group, fault := range instances.failed {
		s.fail(group, fault, a.options.Backoff, now)
	}
	v := &view{now: now, nodes: nodes, pods: pods}
	for i := range a.options.Groups {
		g := &groupView{Group: &a.options.Groups[i]}
		g.target = instances.requested[g.Name]
		for _, n := range nodes {
			if strings.HasPrefix(n.Spec.ProviderID, providerID(g.Name, "")) {
				g.target++
				g.registered++
				if isReady(n) {
					g.ready++
				}
			}
		}
		if b := s.backoffs[g.Name]; b != nil && now.Before(b.until) {
			g.backoff = b
		}
		v.groups = append(v.groups, g)
	}
	return v, nil
}

// fail begins the backoff of a group. A node that registers ends it.
func (s *scans) fail(group string, f Fault, first time.Duration, now time.Time) {
	s.failures[group]++
	length := min(first<<min(s.failures[group]-1, 10), 6*first)
	s.backoffs[group] = &backoff{until: now.Add(length), code: f.ErrorCode, message: f.ErrorMessage}
}

// event records an event of a Pod, unless it was recorded recently.
func (s *scans) event(recorder record.EventRecorder, p *corev1.Pod, reason, message string, now time.Time) {
	if last := s.events[p.UID]; last.message == message && now.Sub(last.at) < repeatEvent {
		return
	}
	s.events[p.UID] = podEvent{message, now}
	recorder.Event(p, corev1.EventTypeNormal, reason, message)
}

// write stores the status.
func (a *Autoscaler) write(ctx context.Context, r *report) {
	c, err := r.configMap()
	if err != nil {
		return
	}
	configs := a.client.CoreV1().ConfigMaps(c.Namespace)
	if _, err := configs.Update(ctx, c, metav1.UpdateOptions{}); apierrors.IsNotFound(err) {
		_, _ = configs.Create(ctx, c, metav1.CreateOptions{})
	}
}
