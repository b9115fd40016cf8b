package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	"sigs.k8s.io/multicluster-runtime/providers/clusters"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/reconnect"
	"github.com/vdi-fleet/vdi-fleet/test/e2e/kindfleet"
)

// watch records the phases of each session on the hub, and its Pods in the members, from all
// events of the fleet's API servers. It watches them by multicluster-runtime, with caches that
// follow an API server within seconds of an outage, since specs that end one come in any order.
type watch struct {
	mu       sync.Mutex
	sessions map[types.NamespacedName][]seen
	pods     map[types.UID]podSeen
}

// seen is a phase, and the time at which it was first observed.
type seen struct {
	at    time.Time
	phase v1alpha1.SessionPhase
	url   string
}

// podSeen is a desktop's Pod, and how often its containers were restarted.
type podSeen struct {
	session  types.UID
	member   string
	name     string
	restarts int32
	at       time.Time
}

func startWatch(ctx context.Context, f *kindfleet.Fleet) (*watch, error) {
	w := &watch{sessions: map[types.NamespacedName][]seen{}, pods: map[types.UID]podSeen{}}
	provider := clusters.New()
	manager, err := mcmanager.New(f.Hub.Config, provider, mcmanager.Options{
		Scheme: kindfleet.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, NewCache: reconnect.NewCache,
	})
	if err != nil {
		return nil, err
	}
	for _, member := range f.Members {
		c, err := cluster.New(member.Config, func(o *cluster.Options) {
			o.Scheme, o.NewCache = kindfleet.Scheme, reconnect.NewCache
		})
		if err != nil {
			return nil, err
		}
		if err := provider.Add(ctx, multicluster.ClusterName(member.Name), c); err != nil {
			return nil, err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	if err := w.follow(ctx, manager.GetLocalManager(), &v1alpha1.VDISession{}, w.session); err != nil {
		return nil, err
	}
	for _, member := range f.Members {
		c, err := engaged(ctx, manager, member.Name, ended)
		if err != nil {
			return nil, err
		}
		if err := w.follow(ctx, c, &corev1.Pod{}, func(object any) { w.pod(member.Name, object) }); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// engaged returns the cluster once the manager has it.
func engaged(ctx context.Context, manager mcmanager.Manager, name string, ended <-chan error) (cluster.Cluster, error) {
	for {
		c, err := manager.GetCluster(ctx, multicluster.ClusterName(name))
		if err == nil {
			return c, nil
		}
		select {
		case err := <-ended:
			return nil, fmt.Errorf("the watch ended: %w", err)
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *watch) follow(ctx context.Context, in interface{ GetCache() crcache.Cache }, what client.Object, take func(any)) error {
	informer, err := in.GetCache().GetInformer(ctx, what)
	if err != nil {
		return err
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: take, UpdateFunc: func(_, object any) { take(object) },
	})
	return err
}

func (w *watch) session(object any) {
	s, ok := object.(*v1alpha1.VDISession)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(s)
	history := w.sessions[key]
	if n := len(history); n == 0 || history[n-1].phase != s.Status.Phase || history[n-1].url != s.Status.URL {
		w.sessions[key] = append(history, seen{time.Now(), s.Status.Phase, s.Status.URL})
	}
}

func (w *watch) pod(member string, object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok || pod.Labels[v1alpha1.LabelSessionUID] == "" {
		return
	}
	restarts := int32(0)
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		restarts += status.RestartCount
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now()
	if before, ok := w.pods[pod.UID]; ok {
		at = before.at
	}
	w.pods[pod.UID] = podSeen{types.UID(pod.Labels[v1alpha1.LabelSessionUID]), member, pod.Name, restarts, at}
}

// since returns the phases of a session from a time on, the one at that time included.
func (w *watch) since(s *v1alpha1.VDISession, from time.Time) []v1alpha1.SessionPhase {
	w.mu.Lock()
	defer w.mu.Unlock()
	var phases []v1alpha1.SessionPhase
	for _, entry := range w.sessions[client.ObjectKeyFromObject(s)] {
		if !entry.at.After(from) {
			phases = phases[:0]
		}
		phases = append(phases, entry.phase)
	}
	return phases
}

// podsOf returns all Pods that a session ever had, in any member.
func (w *watch) podsOf(s *v1alpha1.VDISession) []podSeen {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []podSeen
	for _, pod := range w.pods {
		if pod.session == s.UID {
			found = append(found, pod)
		}
	}
	return found
}
