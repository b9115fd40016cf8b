package door

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
	"github.com/vdi-fleet/vdi-fleet/proto/reconnect"
)

// Limits of requests.
const (
	maxHeader     = 16 << 10
	headerTimeout = 10 * time.Second
	keepAlive     = 2 * time.Minute
	// drainTimeout is how long requests may take when the door ends. Connections to desktops then end: browsers
	// connect to another door.
	drainTimeout = 5 * time.Second
)

// +kubebuilder:rbac:groups="",namespace=vdi-system,resources=configmaps,resourceNames=vdi-door,verbs=list;watch

// door is a replica of a member's door.
type door struct {
	options Options
	console atomic.Pointer[console]
	handler http.Handler
}

// Run runs a replica against the member's cluster until the context ends.
func Run(ctx context.Context, cfg *rest.Config, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	cfg = rest.CopyConfig(cfg)
	cfg.UserAgent = "vdi-door/" + o.Version
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("building the scheme: %w", err)
	}
	mgr, err := manager.New(cfg, manager.Options{
		Scheme:                 scheme,
		Metrics:                metrics.Options(o.MetricsBindAddress, o.MetricsAuthentication),
		HealthProbeBindAddress: o.HealthProbeBindAddress,
		NewCache:               reconnect.NewCache,
		Cache: cache.Options{
			ByObject: map[client.Object]cache.ByObject{
				&corev1.ConfigMap{}: {Namespaces: map[string]cache.Config{
					o.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", ConfigMapName)},
				}},
				&v1alpha1.SessionAssignment{}: {Transform: trimmed},
				&corev1.Pod{}: {
					Label:     labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}),
					Transform: trimmedPod,
				},
			},
			DefaultTransform: cache.TransformStripManagedFields(),
		},
	})
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	if err := setup(ctx, mgr, o); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// trimmed removes from a cached assignment what the door does not use.
func trimmed(o any) (any, error) {
	if a, ok := o.(*v1alpha1.SessionAssignment); ok {
		desktop := a.Spec.Desktop
		a.ManagedFields, a.Annotations, a.Labels = nil, nil, nil
		a.Spec.Desktop = v1alpha1.Desktop{Protocol: desktop.Protocol, Path: desktop.Path, Port: desktop.Port, Access: desktop.Access}
		a.Status = v1alpha1.SessionAssignmentStatus{}
	}
	return o, nil
}

// trimmedPod removes from a cached Pod what the door does not use.
func trimmedPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	out := &corev1.Pod{Status: corev1.PodStatus{PodIP: pod.Status.PodIP}}
	out.Namespace, out.Name, out.UID, out.ResourceVersion = pod.Namespace, pod.Name, pod.UID, pod.ResourceVersion
	out.OwnerReferences, out.DeletionTimestamp = pod.OwnerReferences, pod.DeletionTimestamp
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			out.Status.Conditions = []corev1.PodCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return out, nil
}

// setup adds the parts of a replica to the manager.
func setup(ctx context.Context, mgr manager.Manager, o Options) error {
	found := &members{cached: mgr.GetCache(), live: mgr.GetAPIReader(), known: map[types.NamespacedName]known{}}
	d := &door{options: o}
	d.handler = &handler{desktops: found, console: d.console.Load, now: time.Now, proxy: newProxy()}
	if err := indexed(ctx, mgr.GetCache()); err != nil {
		return fmt.Errorf("indexing assignments: %w", err)
	}
	assignments, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.SessionAssignment{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching assignments: %w", err)
	}
	if _, err := mgr.GetCache().GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false)); err != nil {
		return fmt.Errorf("watching Pods: %w", err)
	}
	configs, err := mgr.GetCache().GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching ConfigMap %s: %w", ConfigMapName, err)
	}
	_, err = assignments.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: func(gone any) {
		if last, ok := gone.(toolscache.DeletedFinalStateUnknown); ok {
			gone = last.Obj
		}
		if a, ok := gone.(*v1alpha1.SessionAssignment); ok {
			found.forget(a)
		}
	}})
	_, err2 := configs.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { d.adopt(ctx, o) },
		UpdateFunc: func(_, o any) { d.adopt(ctx, o) },
		DeleteFunc: func(any) { d.console.Store(nil) },
	})
	return errors.Join(err, err2,
		mgr.Add(manager.RunnableFunc(d.serve)),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("cache", func(r *http.Request) error {
			ctx, cancel := context.WithTimeout(r.Context(), time.Second)
			defer cancel()
			if !mgr.GetCache().WaitForCacheSync(ctx) {
				return errors.New("the door's cache has not synced")
			}
			return nil
		}))
}

// adopt uses the configuration of a ConfigMap. An invalid one changes nothing.
func (d *door) adopt(ctx context.Context, o any) {
	stored, ok := o.(*corev1.ConfigMap)
	if !ok {
		return
	}
	config, err := ParseConfig(stored.Data[ConfigEntry])
	if err != nil {
		log.FromContext(ctx).Error(err, "The ConfigMap of the door is not valid, and is not used", "configMap", stored.Name)
		return
	}
	d.console.Store(newConsole(config))
}

// serve serves browsers until the context ends.
func (d *door) serve(ctx context.Context) error {
	listener, err := net.Listen("tcp", d.options.BindAddress)
	if err != nil {
		return fmt.Errorf("listening for browsers: %w", err)
	}
	// The context of requests ends those that Shutdown does not know: the connections to desktops.
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	server := &http.Server{
		Handler: d.handler, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: headerTimeout, IdleTimeout: keepAlive,
		BaseContext: func(net.Listener) context.Context { return requests },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	log.FromContext(ctx).Info("Serving", "address", listener.Addr().String())
	select {
	case err := <-ended:
		return fmt.Errorf("serving browsers: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	return server.Shutdown(drain)
}
