package session_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/vdi-fleet/vdi-fleet/agent/fence"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/agent/session"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
	"github.com/vdi-fleet/vdi-fleet/test/specs"
)

// namespace of most sessions of the suite. Like all of its namespaces it
// enforces Pod Security "restricted", so each Pod that runs here has passed it.
const namespace = "desktops"

// restricted is on every namespace, as is that it is admitted.
var restricted = map[string]string{"pod-security.kubernetes.io/enforce": "restricted", api.LabelAdmitSessions: "true"}

// statusInterval is that of the suite's agents.
const statusInterval = 2 * time.Second

// agentUser is what the reconciler runs as: not an administrator, so that the
// suite fails where the permissions of the markers in setup.go do not suffice.
const agentUser = "vdi-agent"

var (
	admin  client.Client
	member *harness.ControlPlane
	tally  = &requests{}

	// stopAgent ends the agent that runs, and waits for it.
	stopAgent func()
)

func TestSession(t *testing.T) {
	EnforceDefaultTimeoutsWhenUsingContexts()
	SetDefaultEventuallyTimeout(time.Minute)
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(2 * time.Second)
	specs.Run(t, "Local reconciler")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	log.SetLogger(GinkgoLogr)
	var err error
	member, err = harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		CRDDirs:    []string{"../../deploy/charts/vdi-agent/files/crds"},
		Nodes:      []kwok.NodeGroup{{Count: 2, Region: "eu", Zone: "eu-a"}},
		Namespaces: map[string]map[string]string{namespace: restricted},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(member.Stop)
	Expect(member.WaitNodesReady(ctx, 2)).To(Succeed())

	admin, err = client.New(member.Config, client.Options{Scheme: newScheme()})
	Expect(err).NotTo(HaveOccurred())
	grant(ctx)
	startAgent()
	DeferCleanup(func() { stopAgent() })
}, NodeTimeout(5*time.Minute))

// grant grants the agent what the markers in setup.go request.
func grant(ctx context.Context) {
	children := []string{"get", "list", "watch", "create", "patch", "delete"}
	read := []string{"get", "list", "watch"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: agentUser}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{api.GroupName}, Resources: []string{"sessionassignments"}, Verbs: []string{"get", "list", "watch", "patch"}},
		{APIGroups: []string{api.GroupName}, Resources: []string{"sessionassignments/status"}, Verbs: []string{"patch", "update"}},
		{APIGroups: []string{api.GroupName}, Resources: []string{"sessionassignments/finalizers"}, Verbs: []string{"update"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "persistentvolumeclaims", "services", "configmaps"}, Verbs: children},
		{APIGroups: []string{""}, Resources: []string{"secrets", "namespaces"}, Verbs: read},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{fence.ConfigMapName}, Verbs: []string{"update"}},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingresses", "networkpolicies"}, Verbs: children},
		{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingressclasses"}, Verbs: read},
		{APIGroups: []string{"policy"}, Resources: []string{"poddisruptionbudgets"}, Verbs: children},
		{APIGroups: []string{"gateway.networking.k8s.io"}, Resources: []string{"httproutes"}, Verbs: children},
		{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}}
	Expect(admin.Create(ctx, role)).To(Succeed())
	Expect(admin.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: agentUser},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: agentUser},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: agentUser}},
	})).To(Succeed())
}

// newScheme has the types of the agent's children.
func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	Expect(errors.Join(clientgoscheme.AddToScheme(scheme), api.AddToScheme(scheme), gatewayv1.Install(scheme))).To(Succeed())
	return scheme
}

// nodes are the states of the member's nodes for the suite's agent.
var nodes = &lostNodes{}

// groups are the node groups of the member for the suite's agent.
var groups = &nodeGroups{changes: make(chan event.GenericEvent)}

// door is that of the member for the suite's agent; it is not in force unless a test sets it.
var door = &memberDoor{changes: make(chan event.GenericEvent)}

// startAgent starts an agent as a test needs it.
func startAgent(change ...func(*session.Options)) {
	config, err := member.ConfigFor(agentUser)
	Expect(err).NotTo(HaveOccurred())
	config.QPS, config.Burst = 500, 500
	config.Wrap(tally.wrap)
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  newScheme(),
		Cache:                   cache.Options{ByObject: session.CacheByObject()},
		Metrics:                 server.Options{BindAddress: "0"},
		GracefulShutdownTimeout: ptr.To(time.Minute),
		Controller:              ctrlconfig.Controller{SkipNameValidation: ptr.To(true)}, // of earlier agents in this process
	})
	Expect(err).NotTo(HaveOccurred())
	options := session.Options{StatusDelay: time.Second, StatusInterval: statusInterval}
	options.CleanupDeadline, options.LostAfter = 3*time.Second, 5*time.Minute
	options.RetryLimits = observe.RetryLimits{FailAfter: 5 * time.Minute, Restarts: 5, Endings: 5}
	for _, c := range change {
		c(&options)
	}
	reconciler := session.New(session.Dependencies{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("vdi-agent"), Reconciled: func(types.NamespacedName) {},
		Nodes: nodes, Growth: groups, Clock: memberClock, Lease: noLease{}, Door: door, Options: options,
		ServerVersion: func() (*version.Info, error) { return &version.Info{Major: "1", Minor: "36"}, nil },
	})
	if theHub != nil {
		theHub.lease(mgr, reconciler)
	}
	Expect(reconciler.SetupWithManager(mgr)).To(Succeed())

	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer GinkgoRecover()
		defer close(done)
		Expect(mgr.Start(ctx)).To(Succeed(), goroutines)
	}()
	stopAgent = func() { stop(); <-done }
}

// goroutines returns what all goroutines do, for an agent that does not stop.
func goroutines() string {
	stacks := make([]byte, 1<<20)
	return string(stacks[:goruntime.Stack(stacks, true)])
}

// withAgent has an agent of other options than the suite's until the test is
// over. Such a test must be Serial.
func withAgent(change func(*session.Options)) {
	stopAgent()
	startAgent(change)
	DeferCleanup(func() {
		stopAgent()
		startAgent()
	})
}

// noLease is that of an agent without guards.
type noLease struct{}

func (noLease) Status() fence.Status               { return fence.Status{} }
func (noLease) Require()                           {}
func (noLease) Changes() <-chan event.GenericEvent { return make(chan event.GenericEvent) }

// memberDoor is a door that a test puts in force.
type memberDoor struct {
	inForce atomic.Bool
	changes chan event.GenericEvent
}

func (d *memberDoor) InForce(context.Context) (bool, error) { return d.inForce.Load(), nil }
func (d *memberDoor) Changes() <-chan event.GenericEvent    { return d.changes }

// set sets whether the door is in force.
func (d *memberDoor) set(ctx context.Context, inForce bool) {
	d.inForce.Store(inForce)
	select {
	case d.changes <- event.GenericEvent{Object: &api.SessionAssignment{}}:
	case <-ctx.Done():
	}
}

// lostNodes are the nodes that do not answer.
type lostNodes struct{ lost sync.Map }

func (n *lostNodes) Node(name string) observe.Node {
	_, lost := n.lost.Load(name)
	return observe.Node{Known: true, Ready: !lost}
}

// nodeGroups has what Pods without a node depend on.
type nodeGroups struct {
	pods    sync.Map
	changes chan event.GenericEvent
}

func (g *nodeGroups) Growth(pod types.UID) observe.Growth {
	growth, _ := g.pods.Load(pod)
	of, _ := growth.(observe.Growth)
	return of
}

func (g *nodeGroups) GrowthChanges() <-chan event.GenericEvent { return g.changes }
