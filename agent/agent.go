package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/assignment"
	"github.com/vdi-fleet/vdi-fleet/agent/buffer"
	"github.com/vdi-fleet/vdi-fleet/agent/capacity"
	"github.com/vdi-fleet/vdi-fleet/agent/exposure"
	"github.com/vdi-fleet/vdi-fleet/agent/fence"
	"github.com/vdi-fleet/vdi-fleet/agent/guard"
	"github.com/vdi-fleet/vdi-fleet/agent/identity"
	"github.com/vdi-fleet/vdi-fleet/agent/link"
	"github.com/vdi-fleet/vdi-fleet/agent/nsinformer"
	"github.com/vdi-fleet/vdi-fleet/agent/objects"
	"github.com/vdi-fleet/vdi-fleet/agent/retention"
	"github.com/vdi-fleet/vdi-fleet/agent/session"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/proto/election"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
	"github.com/vdi-fleet/vdi-fleet/proto/recorder"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// shutdownTimeout is how long running reconciles may take to end.
const shutdownTimeout = 10 * time.Second

// Run runs the agent against a member's API server until the context ends or another
// replica leads in its place.
func Run(ctx context.Context, cfg *rest.Config, options Options) error {
	if err := options.Validate(); err != nil {
		return err
	}
	log.FromContext(ctx).Info("Starting the agent", "version", options.Version, "member", options.Member,
		"hub", options.HubAddress, "timeFactor", options.TimeFactor)
	trace, err := tracing.Start(ctx, log.FromContext(ctx).WithName("tracing"), options.tracing())
	if err != nil {
		return err
	}
	defer trace.Stop()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	mgr, leadership, err := newManager(cfg, options, end)
	if err != nil {
		return err
	}
	lease := fence.NewKeeper(mgr.GetAPIReader(), mgr.GetClient(), options.Namespace, options.TimeFactor)
	restrictions := options.restrictions()
	store := assignment.New(assignment.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cache: mgr.GetCache(), Restrictions: &restrictions, Trace: trace, Starts: &assignment.Starts{},
	})
	// It decodes all Pods and Nodes of the member, which are smaller and cheaper as protobuf.
	protobuf := rest.CopyConfig(mgr.GetConfig())
	protobuf.ContentType = runtime.ContentTypeProtobuf
	protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	clientset, err := kubernetes.NewForConfig(protobuf)
	if err != nil {
		return fmt.Errorf("making the member's client: %w", err)
	}
	door, err := addDoor(mgr, options)
	if err != nil {
		return err
	}
	watcher, err := connect(mgr, clientset, leadership, options, store, lease, door)
	if err != nil {
		return err
	}
	if err := reconcile(mgr, clientset, options, watcher, store, lease, door); err != nil {
		return err
	}
	if err := addProbes(mgr); err != nil {
		return err
	}
	err = mgr.Start(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errLost) {
		log.FromContext(ctx).Info("Shutting down", "reason", cause.Error())
		return cause
	}
	return err
}

// This role is for scrapers of the metrics. The agent itself has system:auth-delegator to
// authorize callers.
// +kubebuilder:rbac:roleName=vdi-agent-metrics-reader,urls=/metrics,verbs=get

func newManager(cfg *rest.Config, options Options, lost func(error)) (ctrl.Manager, *election.Leadership, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = options.KubeAPIQPS, options.KubeAPIBurst
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), gatewayv1.Install(scheme)); err != nil {
		return nil, nil, fmt.Errorf("building the scheme: %w", err)
	}
	leadership, lock, err := newLeadership(cfg, options, scheme, lost)
	if err != nil {
		return nil, nil, err
	}
	cached := session.CacheByObject()
	cached[&corev1.Namespace{}] = cache.ByObject{Label: labels.SelectorFromSet(labels.Set{v1alpha1.LabelAdmitSessions: "true"})}
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:                              scheme,
		Cache:                               cache.Options{ByObject: cached, DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:                             metrics.Options(options.MetricsBindAddress, options.MetricsAuthentication),
		HealthProbeBindAddress:              options.HealthProbeBindAddress,
		NewCache:                            nsinformer.NewCache,
		LeaderElection:                      options.LeaderElect,
		LeaderElectionResourceLockInterface: lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       ptr.To(election.IncumbentLeaseDuration),
		RenewDeadline:                       ptr.To(election.IncumbentRenewDeadline),
		RetryPeriod:                         ptr.To(options.retryPeriod()),
		GracefulShutdownTimeout:             ptr.To(shutdownTimeout),
		// The priority queue of controller-runtime v0.24.1 can block for good when
		// it is shut down under load (see package hub).
		Controller: config.Controller{UsePriorityQueue: ptr.To(false)},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("making the manager: %w", err)
	}
	return mgr, leadership, nil
}

// reconcile adds the member's controllers to the manager. The states of nodes, from the
// capacity watcher, distinguish a lost desktop from one that stops, and its node groups one that
// waits for a node from one that fits on none.
func reconcile(mgr ctrl.Manager, clientset kubernetes.Interface, options Options, watcher *capacity.Watcher, store *assignment.Store, lease *fence.Keeper, door *exposure.Keeper) error {
	sessions, err := options.session()
	if err != nil {
		return err
	}
	endpoint := guard.NewEndpoint(guard.EndpointOptions{
		Address: options.LeaseAddress, Namespace: options.Namespace, TimeFactor: options.TimeFactor,
		Live: mgr.GetAPIReader(), Client: mgr.GetClient(), LeaseStatus: lease.Status, KeyKnown: lease.Changed,
		Ordered: store.Ordered,
	})
	if sessions.Guard != nil {
		if err := mgr.Add(endpoint); err != nil {
			return fmt.Errorf("adding the endpoint for guards and gates: %w", err)
		}
	}
	events := recorder.Limited(mgr.GetEventRecorder("vdi-agent"))
	dependencies := session.Dependencies{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: events, Clock: clock.RealClock{},
		Nodes: watcher, Growth: watcher, Lease: lease, Reconciled: store.Starts.End, Trace: store.Trace, ServerVersion: clientset.Discovery().ServerVersion, GuardKey: endpoint.PublicKey, Options: sessions,
	}
	if door != nil {
		dependencies.Door = door
	}
	if err := session.New(dependencies).SetupWithManager(mgr); err != nil {
		return err
	}
	return retention.SetupWithManager(mgr, retention.Options{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: events, Clock: clock.RealClock{},
		OverdueFor: overdueFor, UnusedFor: unusedFor,
	})
}

// connect connects capacity, assignments, the lease and the link, and returns the capacity
// watcher.
func connect(mgr ctrl.Manager, clientset kubernetes.Interface, leadership *election.Leadership, options Options, store *assignment.Store, lease *fence.Keeper, door *exposure.Keeper) (*capacity.Watcher, error) {
	var hub *link.Client
	karpenter, err := dynamic.NewForConfig(mgr.GetConfig())
	if err != nil {
		return nil, fmt.Errorf("making the client of Karpenter's objects: %w", err)
	}
	watcher := capacity.NewWatcher(capacity.Options{
		Client: clientset, Objects: karpenter, Assignments: mgr.GetCache(), Restrictions: options.restrictions(),
		GroupTimes: options.NodeGroupTimes,
		OnChange:   func() { hub.CapacityChanged() },
	})
	// A rebuilt cluster of the same name has another fingerprint.
	fingerprint := func(ctx context.Context) (string, error) {
		namespace := &corev1.Namespace{}
		err := mgr.GetAPIReader().Get(ctx, types.NamespacedName{Name: metav1.NamespaceSystem}, namespace)
		return string(namespace.UID), err
	}
	linkOptions := options.link(uuid.NewString())
	linkOptions.Leading = leadership.Leading
	if !options.externallyIssued() {
		keeper := identity.NewKeeper(options.identity(), identity.Member{
			Reader: mgr.GetAPIReader(), Client: mgr.GetClient(),
			Recorder: mgr.GetEventRecorder("vdi-agent"), Fingerprint: fingerprint,
		})
		if err := mgr.Add(keeper); err != nil {
			return nil, fmt.Errorf("adding the keeper of the agent's identity: %w", err)
		}
		linkOptions.Credentials = keeper
	}
	member := link.Member{
		Assignments: store, Orders: store, Capacity: watcher,
		Terms:       &link.ConfigMapTerms{Store: objects.Store{Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Namespace: options.Namespace}},
		Fingerprint: fingerprint,
		Lease:       lease,
		// A renewal before the lease is loaded would not count.
		Synced: func(ctx context.Context) bool { return store.Synced(ctx) && lease.Loaded(ctx) },
	}
	if door != nil {
		member.Door = door
	}
	hub = link.NewClient(linkOptions, member)
	store.Reporter, store.Capacity = hub, watcher
	buffers := buffer.NewKeeper(buffer.Options{
		Client: clientset, Capacity: capacity.BuffersOf(watcher), Namespace: options.Namespace,
		Image: options.BufferImage, PullSecrets: options.BufferPullSecrets,
	})
	return watcher, errors.Join(mgr.Add(lease), store.SetupWithManager(mgr), mgr.Add(watcher), mgr.Add(buffers), mgr.Add(hub))
}

// addDoor adds what leads browsers to the member's door, and returns it; nil if the member has none.
func addDoor(mgr ctrl.Manager, options Options) (*exposure.Keeper, error) {
	if options.DoorURL == "" {
		return nil, nil
	}
	sessions, err := options.session()
	if err != nil {
		return nil, err
	}
	keeper := exposure.NewKeeper(exposure.Options{
		Store:   objects.Store{Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Namespace: options.Namespace},
		Classes: mgr.GetClient(), URL: options.DoorURL, IngressClass: options.DoorIngressClass,
		Network: sessions.Network, Restrictions: options.restrictions(),
	})
	return keeper, mgr.Add(keeper)
}

// addProbes adds the probes: an agent that answers is alive, and one whose caches have
// synced is ready. Neither depends on the hub.
func addProbes(mgr ctrl.Manager) error {
	ready := func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}
	if err := errors.Join(mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("caches", ready)); err != nil {
		return fmt.Errorf("adding probes: %w", err)
	}
	return nil
}
