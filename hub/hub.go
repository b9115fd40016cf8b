package hub

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/access"
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/door"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/identity"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/review"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	schedulercache "github.com/vdi-fleet/vdi-fleet/hub/scheduling/cache"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/template"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
	"github.com/vdi-fleet/vdi-fleet/proto/reconnect"
	"github.com/vdi-fleet/vdi-fleet/proto/recorder"
	"github.com/vdi-fleet/vdi-fleet/proto/tracing"
)

// Scheme returns the kinds that the hub uses.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // two kinds with the same name: a programming error
		}
	}
	return s
}

// Run runs a replica of the hub against the cluster of the configuration until
// the context ends or leadership is lost.
func Run(ctx context.Context, cfg *rest.Config, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	timings := o.timings()
	if o.TimeFactor != 1 {
		ctrl.Log.Info("Timings are scaled: this is not a production setting", "timeFactor", o.TimeFactor)
	}
	ctrl.Log.Info("Timings of failover", "timeFactor", o.TimeFactor, "unreachable", timings.Unreachable.String(),
		"after", timings.Failover.After.String(), "lease", timings.Failover.Lease.String(), "regain", timings.Failover.Regain.String())
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.Burst = o.KubeAPIQPS, o.KubeAPIBurst

	trace, err := tracing.Start(ctx, ctrl.Log.WithName("tracing"), o.tracing())
	if err != nil {
		return err
	}
	defer trace.Stop()
	leader, err := newLeader(cfg, o)
	if err != nil {
		return err
	}

	f := newFleet(o, timings)
	mgr, err := mcmanager.New(cfg, f, managerOptions(o, leader))
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	if err := setup(ctx, mgr, f, leader, trace, o); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// fleet holds the members, the scheduler's cache and the proofs of placements.
type fleet struct {
	*member.Fleet
	cache *schedulercache.Cache
	// proofs has its key before the first agent is admitted.
	proofs *assignment.Proofs
}

func newFleet(o Options, timings health.Timings) *fleet {
	f := &fleet{cache: schedulercache.New(clock.RealClock{}), proofs: &assignment.Proofs{Namespace: o.Namespace}}
	f.Fleet = member.New(member.Options{Scheme: Scheme(), Clock: clock.RealClock{}, Timings: timings, Cache: f.cache, Proven: f.proofs.Proven})
	f.cache.Follow(f.Fleet)
	return f
}

// The role of callers that scrape the metrics. The hub itself has system:auth-delegator
// to authorize them.
// +kubebuilder:rbac:roleName=vdi-hub-metrics-reader,urls=/metrics,verbs=get

func managerOptions(o Options, l *leader) manager.Options {
	return manager.Options{
		Scheme:                              Scheme(),
		Metrics:                             metrics.Options(o.MetricsBindAddress, o.MetricsAuthentication),
		HealthProbeBindAddress:              o.HealthProbeBindAddress,
		LeaderElection:                      o.LeaderElect,
		LeaderElectionResourceLockInterface: l.lock,
		LeaderElectionReleaseOnCancel:       true,
		LeaseDuration:                       ptr.To(o.leaseDuration()),
		RenewDeadline:                       ptr.To(o.renewDeadline()),
		RetryPeriod:                         ptr.To(o.scaled(retryPeriod)),
		// The priority queue of controller-runtime v0.24.1 can block forever when it is
		// shut down under load: it sends an item to a worker that has ended, with its
		// lock held. The leader's lock would be released 30 s later.
		Controller: config.Controller{UsePriorityQueue: ptr.To(false)},
		NewCache:   reconnect.NewCache,
		// Shared by the cache and the client.
		MapperProvider: newMapper,
		Cache: cache.Options{
			ByObject:         cached(o),
			DefaultTransform: cache.TransformStripManagedFields(),
		},
	}
}

// cached restricts the hub's cache to what it needs of numerous objects.
func cached(o Options) map[client.Object]cache.ByObject {
	objects := session.Cached(o.Namespace, o.SessionNamespaces)
	objects[&v1alpha1.MemberCluster{}] = member.Cached()
	objects[&appsv1.ControllerRevision{}] = cache.ByObject{Namespaces: map[string]cache.Config{o.Namespace: {}}}
	// Only read if UserRoles is set.
	objects[&rbacv1.Role{}] = access.Cached(o.SessionNamespaces)
	objects[&rbacv1.RoleBinding{}] = access.Cached(o.SessionNamespaces)
	return objects
}

// warm registers the informers of what a leader reads. A standby has it all when it takes over: an API
// server takes up to a minute to list the Secrets and Roles of 100,000 sessions, and until then members
// would not be served.
func warm(ctx context.Context, c cache.Cache, o Options) error {
	kinds := []client.Object{
		&v1alpha1.MemberCluster{}, &v1alpha1.VDITemplate{}, &v1alpha1.PlacementPolicy{}, &v1alpha1.VDIHome{},
		&appsv1.ControllerRevision{}, &corev1.Secret{},
	}
	if o.UserRoles {
		kinds = append(kinds, &rbacv1.Role{}, &rbacv1.RoleBinding{})
	}
	for _, kind := range kinds {
		if _, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return fmt.Errorf("watching %T: %w", kind, err)
		}
	}
	return nil
}

func setup(ctx context.Context, mgr mcmanager.Manager, f *fleet, l *leader, trace *tracing.Tracer, o Options) error {
	local := mgr.GetLocalManager()
	cached, err := index.Setup(ctx, local.GetCache())
	if err != nil {
		return err
	}
	if err := warm(ctx, local.GetCache(), o); err != nil {
		return err
	}
	term := newHubTerm(o, local.GetAPIReader(), local.GetClient(), local.GetEventRecorder("vdi-hub"), f.Restored)
	prepare, err := setupControllers(ctx, mgr, f, cached, term, trace, o)
	if err != nil {
		return err
	}
	// Certificates are issued and verified by the same clock.
	now := identity.SteadyClock()
	authority, err := addAuthority(local, f.Fleet, now, o)
	if err != nil {
		return err
	}
	run := &linkRunnable{term: term, fleet: f.Fleet, leader: l, address: o.LinkBindAddress, options: linkOptions(o, term, l)}
	run.options.RenewInterval = f.Fleet.RenewInterval
	run.options.Now, run.options.Trace, run.options.Term.Proof = now, trace, f.proofs.Term
	run.prepare = append(run.prepare, term.begin)
	if authority != nil {
		run.options.Authority = authority
		run.prepare = append(run.prepare, authority.Prepare)
	}
	run.prepare = append(run.prepare, prepare)
	if err := local.Add(run); err != nil {
		return fmt.Errorf("adding the link: %w", err)
	}
	if err := l.addRole(local, o); err != nil {
		return err
	}
	if err := addCollection(local); err != nil {
		return err
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.AddReadyzCheck("cache", func(req *http.Request) error {
		ctx, cancel := context.WithTimeout(req.Context(), time.Second)
		defer cancel()
		if !local.GetCache().WaitForCacheSync(ctx) {
			return fmt.Errorf("the hub's cache has not synced")
		}
		return nil
	})
}

// setupControllers adds the controllers. It returns a function that must run before the
// first agent is admitted: it reads the key of the proofs, registers the members, and
// rebuilds the reservations.
func setupControllers(ctx context.Context, mgr mcmanager.Manager, f *fleet, cached index.Sessions, term *hubTerm, trace *tracing.Tracer, o Options) (prepare func(context.Context) error, err error) {
	local := mgr.GetLocalManager()
	c, events := local.GetClient(), recorder.Limited(local.GetEventRecorder("vdi-hub"))
	revisions := template.NewRevisions(c, o.Namespace)
	f.proofs.Client, f.proofs.Live = c, local.GetAPIReader()
	orders := &assignment.Orders{
		State: f.State, Revisions: revisions, Proofs: f.proofs, Namespaces: o.SessionNamespaces, Trace: trace,
		Secrets: &secret.Manager{Client: c, Live: local.GetAPIReader(), Namespace: o.Namespace},
	}
	departures := &assignment.Departures{}
	sessions := &session.Reconciler{
		Client: c, Live: local.GetAPIReader(), Cached: cached, Recorder: events, Fleet: f, Reservations: f.cache, Members: f, Orders: orders,
		Departures: departures, Clock: clock.RealClock{}, Restores: term, Console: strings.TrimSuffix(o.ConsoleURL, "/"),
		Timings: lifecycle.Timings{
			ForceAfter: o.scaled(lifecycle.DefaultForceAfter), MoveAfter: o.scaled(lifecycle.DefaultMoveAfter), IdleAfter: o.scaled(lifecycle.DefaultIdleAfter),
		},
	}
	scheduler := scheduling.New(scheduling.Options{Cache: f.cache, Members: f, Clock: clock.RealClock{}, RefusalExpired: sessions.RefusalExpired})
	sessions.Scheduler = scheduler
	assignments := &assignment.Reconciler{
		Client: c, Live: local.GetAPIReader(), Cached: cached, Clusters: f, Fleet: f, Reservations: f.cache, Sessions: sessions, Orders: orders, Departures: departures, Clock: clock.RealClock{},
	}
	homes := &home.Reconciler{
		Client: c, Live: local.GetAPIReader(), Sessions: sessions, Members: f, Departed: departures.Departed, Gone: f.Gone, Clock: clock.RealClock{},
	}
	policies := &policy.Reconciler{
		Client: c, Sessions: cached, Members: f, Placement: f.cache, Revisions: revisions, Clock: clock.RealClock{}, Interval: o.scaled(policy.DefaultInterval),
	}
	reviews := &review.Reconciler{Client: c, Members: f, Placement: f.cache, Sessions: sessions, Clock: clock.RealClock{}}
	members := &member.Reconciler{Client: c, Recorder: events, Fleet: f.Fleet, Namespace: o.Namespace, HeldIn: cached.HeldIn}
	sessions.Register = members.RegisterAll
	templates := &template.Reconciler{Client: c, Members: f, Clock: clock.RealClock{}, Namespace: o.Namespace, InUse: cached.RevisionInUse, Prepare: sessions.Rebuild, Placed: f.cache.PlacedWith}
	doors := &door.Reconciler{Client: c, Members: f, Namespace: o.Namespace, Console: sessions.Console}
	for _, controller := range []struct {
		of    string
		setup func() error
	}{
		{"sessions", func() error { return sessions.SetupWithManager(ctx, local, scheduler) }},
		{"homes", func() error { return homes.SetupWithManager(local) }},
		{"policies", func() error { return policies.SetupWithManager(local) }},
		{"reviews", func() error { return reviews.SetupWithManager(local) }},
		{"assignments", func() error { return assignments.SetupWithManager(mgr) }},
		{"members", func() error { return members.SetupWithManager(local) }},
		{"templates", func() error { return templates.SetupWithManager(local) }},
		{"user roles", func() error { return setupUserRoles(local, cached, o) }},
		{"doors", func() error { return doors.SetupWithManager(local) }},
	} {
		if err := controller.setup(); err != nil {
			return nil, fmt.Errorf("setting up the controller of %s: %w", controller.of, err)
		}
	}
	return func(ctx context.Context) error {
		if err := f.proofs.Prepare(ctx); err != nil {
			return err
		}
		if err := setHubCluster(ctx, local.GetAPIReader(), f.Fleet); err != nil {
			return err
		}
		return sessions.Rebuild(ctx)
	}, nil
}

// setupUserRoles adds the controller of users' Roles, if it is enabled.
func setupUserRoles(mgr manager.Manager, sessions index.Sessions, o Options) error {
	if !o.UserRoles {
		return nil
	}
	roles := &access.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Sessions: sessions, Recorder: mgr.GetEventRecorder("vdi-hub"), Clock: clock.RealClock{},
	}
	return roles.SetupWithManager(mgr)
}

// linkOptions returns the link's options.
func linkOptions(o Options, term *hubTerm, l *leader) link.Options {
	options := link.Options{
		CertFile: o.TLSCertFile, KeyFile: o.TLSKeyFile, ClientCAFile: o.ClientCAFile, TrustDomain: o.TrustDomain,
		Term:     link.Term{Current: term.current.Load, Raise: term.raise, Ordered: term.advance},
		Leading:  l.leadership.Leading,
		Timeouts: link.Timeouts{Drain: o.scaled(drainTimeout)},
	}
	options.Tuning.AckTimeout, options.Timeouts.Send = link.ScaledTimeouts(o.TimeFactor)
	if o.LeaderElect {
		options.Term.First = term.first.Load
	}
	return options
}

// linkRunnable listens for agents while this replica leads.
type linkRunnable struct {
	term    *hubTerm
	fleet   *member.Fleet
	leader  *leader
	address string
	options link.Options
	// prepare are called in order before the first agent is admitted.
	prepare []func(context.Context) error
}

var _ manager.LeaderElectionRunnable = &linkRunnable{}

// NeedLeaderElection returns true: only the leader serves agents.
func (l *linkRunnable) NeedLeaderElection() bool { return true }

// Start serves agents until the context ends.
func (l *linkRunnable) Start(ctx context.Context) error {
	for _, prepare := range l.prepare {
		if err := prepare(ctx); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		return fmt.Errorf("listening for agents: %w", err)
	}
	ctrl.Log.Info("Leading", "term", l.term.current.Load(), "linkAddress", l.address)
	close(l.leader.serving)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.term.runAdvance(ctx) })
	group.Go(func() error { return link.NewServer(l.options, l.fleet).Serve(ctx, listener) })
	return group.Wait()
}
