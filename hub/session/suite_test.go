package session_test

import (
	"github.com/vdi-fleet/vdi-fleet/hub/assignment"
	"github.com/vdi-fleet/vdi-fleet/hub/session/index"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"

	"context"
	"runtime/pprof"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/hub/member"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/hub/policy"
	"github.com/vdi-fleet/vdi-fleet/hub/review"
	"github.com/vdi-fleet/vdi-fleet/hub/scheduling"
	schedulercache "github.com/vdi-fleet/vdi-fleet/hub/scheduling/cache"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/hub/session"
	hubtemplate "github.com/vdi-fleet/vdi-fleet/hub/template"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

const (
	systemNamespace = "vdi-system"
	// hubUser is the user of the hub's controllers, so that the audit log distinguishes
	// their writes from the suite's.
	hubUser = "vdi-hub"
)

// timings of the suite: long enough that a busy machine makes no member
// Suspect, short enough to wait for.
var timings = health.Timings{
	Renew: 100 * time.Millisecond, Suspect: 2 * time.Second, Unreachable: 3 * time.Second,
	Stable: 500 * time.Millisecond, FlipWindow: time.Minute, Quarantine: time.Minute,
	Heartbeat: time.Minute, Recovery: time.Minute,
	Failover: failover.Timings{After: time.Minute, Lease: time.Minute, Regain: 2 * time.Minute, Slack: time.Second},
}

// fastFailover returns timings by which members are soon lost, and their sessions
// rescheduled.
func fastFailover() health.Timings {
	t := timings
	t.Suspect, t.Unreachable, t.Stable, t.FlipWindow = 1500*time.Millisecond, 2*time.Second, 200*time.Millisecond, time.Millisecond
	t.Failover = failover.Timings{After: time.Second, Lease: 2200 * time.Millisecond, Regain: 3 * time.Second, Slack: 100 * time.Millisecond}
	return t
}

// forceAfter is how long members get to confirm a forced cleanup.
const forceAfter = 4 * time.Second

// moveAfter is how long a member gets to find a node for a Pod.
const moveAfter = 500 * time.Millisecond

var (
	scheme = runtime.NewScheme()
	plane  *harness.ControlPlane
	admin  client.Client
	hubCfg *rest.Config
)

func TestSession(t *testing.T) {
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(time.Second)
	specs.Run(t, "Sessions on the hub")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	log.SetLogger(GinkgoLogr)
	Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	Expect(api.AddToScheme(scheme)).To(Succeed())
	var err error
	plane, err = harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Name: "hub", APIOnly: true, CRDDirs: []string{"../../deploy/charts/vdi-hub/files/crds"},
		Namespaces: map[string]map[string]string{"desktops": nil, "elsewhere": nil, systemNamespace: nil},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(plane.Stop)
	admin, err = client.New(plane.Config, client.Options{Scheme: scheme})
	Expect(err).NotTo(HaveOccurred())
	hubCfg, err = plane.ConfigFor(hubUser, "system:masters")
	Expect(err).NotTo(HaveOccurred())
	hubCfg.QPS, hubCfg.Burst = 500, 1000
}, NodeTimeout(5*time.Minute))

// hub is one leader of the hub: its controllers and its fleet, without a link.
type hub struct {
	fleet   *member.Fleet
	timings health.Timings
	cached  client.Reader
	stop    func()
}

// startHub starts a hub whose only state is what the API server holds.
func startHub(t health.Timings) *hub {
	GinkgoHelper()
	proofs := &assignment.Proofs{Namespace: systemNamespace}
	placed := schedulercache.New(clock.RealClock{})
	f := member.New(member.Options{Scheme: scheme, Clock: clock.RealClock{}, Timings: t, Cache: placed, Proven: proofs.Proven})
	placed.Follow(f)
	cached := session.Cached(systemNamespace, nil)
	cached[&coordinationv1.Lease{}] = cache.ByObject{Namespaces: map[string]cache.Config{systemNamespace: {}}}
	cached[&appsv1.ControllerRevision{}] = cache.ByObject{Namespaces: map[string]cache.Config{systemNamespace: {}}}
	mgr, err := mcmanager.New(hubCfg, f, manager.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: ptr.To(true), UsePriorityQueue: ptr.To(false)},
		Cache:      cache.Options{ByObject: cached},
	})
	Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithCancel(context.Background())
	prepare := setup(ctx, mgr, f, placed, proofs)
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect(mgr.Start(ctx)).To(Succeed())
	}()
	h := &hub{fleet: f, timings: t, cached: mgr.GetLocalManager().GetCache()}
	h.stop = func() {
		cancel()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			// The manager times out after 30 s: write what blocks it instead.
			_ = pprof.Lookup("goroutine").WriteTo(GinkgoWriter, 1)
			Fail("the hub does not stop; the goroutines are above")
		}
	}
	Expect(mgr.GetLocalManager().GetCache().WaitForCacheSync(ctx)).To(BeTrue())
	Expect(prepare(ctx)).To(Succeed())
	return h
}

// setup sets up the controllers as hub/hub.go does.
func setup(ctx context.Context, mgr mcmanager.Manager, f *member.Fleet, placed *schedulercache.Cache, proofs *assignment.Proofs) (prepare func(context.Context) error) {
	GinkgoHelper()
	local := mgr.GetLocalManager()
	c, recorder := local.GetClient(), local.GetEventRecorder("vdi-hub")
	cached, err := index.Setup(ctx, local.GetCache())
	Expect(err).NotTo(HaveOccurred())
	proofs.Client, proofs.Live = c, local.GetAPIReader()
	revisions := hubtemplate.NewRevisions(c, systemNamespace)
	orders := &assignment.Orders{
		State: f.State, Revisions: revisions, Proofs: proofs,
		Secrets: &secret.Manager{Client: c, Live: local.GetAPIReader(), Namespace: systemNamespace},
	}
	departures := &assignment.Departures{}
	sessions := &session.Reconciler{
		Client: c, Live: local.GetAPIReader(), Cached: cached, Recorder: recorder, Fleet: f, Reservations: placed, Members: f, Orders: orders,
		Departures: departures, Clock: clock.RealClock{}, Restores: restores, Timings: lifecycle.Timings{ForceAfter: forceAfter, MoveAfter: moveAfter},
	}
	// Pending sessions are decided on again only when an event requeues them.
	scheduler := scheduling.New(scheduling.Options{Cache: placed, Members: f, Clock: clock.RealClock{}, RefusalExpired: sessions.RefusalExpired, RecheckAfter: time.Hour})
	sessions.Scheduler = scheduler
	restores.fleet = f
	assignments := &assignment.Reconciler{
		Client: c, Live: local.GetAPIReader(), Cached: cached, Clusters: f, Fleet: f, Reservations: placed, Sessions: sessions, Orders: orders, Departures: departures, Clock: clock.RealClock{},
	}
	homes := &home.Reconciler{
		Client: c, Live: local.GetAPIReader(), Sessions: sessions, Members: f, Departed: departures.Departed, Gone: f.Gone, Clock: clock.RealClock{},
	}
	policies := &policy.Reconciler{Client: c, Sessions: cached, Members: f, Placement: placed, Revisions: revisions, Clock: clock.RealClock{}, Interval: time.Second}
	reviews := &review.Reconciler{Client: c, Members: f, Placement: placed, Sessions: sessions, Clock: clock.RealClock{}}
	members := &member.Reconciler{Client: c, Recorder: recorder, Fleet: f, Namespace: systemNamespace, HeldIn: cached.HeldIn}
	sessions.Register = members.RegisterAll
	templates := &hubtemplate.Reconciler{Client: c, Members: f, Clock: clock.RealClock{}, Namespace: systemNamespace, InUse: cached.RevisionInUse, Prepare: sessions.Rebuild, Placed: placed.PlacedWith}
	Expect(sessions.SetupWithManager(ctx, local, scheduler)).To(Succeed())
	Expect(homes.SetupWithManager(local)).To(Succeed())
	Expect(policies.SetupWithManager(local)).To(Succeed())
	Expect(reviews.SetupWithManager(local)).To(Succeed())
	Expect(assignments.SetupWithManager(mgr)).To(Succeed())
	Expect(members.SetupWithManager(local)).To(Succeed())
	Expect(templates.SetupWithManager(local)).To(Succeed())
	return func(ctx context.Context) error {
		if err := proofs.Prepare(ctx); err != nil {
			return err
		}
		return sessions.Rebuild(ctx)
	}
}
