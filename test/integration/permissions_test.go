package integration

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/permissions"
)

// Hub and agents run with the roles of deploy/ alone, so that every spec shows that these suffice.
// checkPermissions checks that they grant no more than is needed.

const (
	agentEverywhere = "ClusterRole vdi-agent"
	agentInSessions = "ClusterRole vdi-agent-sessions"
	agentAtHome     = "Role vdi-agent"
	agentOfDoor     = "Role vdi-agent-door"
	hubEverywhere   = "ClusterRole vdi-hub"
	hubInSessions   = "ClusterRole vdi-hub-sessions"
	hubUserRoles    = "ClusterRole vdi-hub-user-roles"
	hubAtHome       = "Role vdi-hub"
)

// children are created by the agent under names that another object may have. One that exists and
// is not in the cache is read: how often depends on how far caches lag.
var children = map[string][]string{
	"":                  {"configmaps", "persistentvolumeclaims", "pods", "services"},
	"networking.k8s.io": {"ingresses", "networkpolicies"},
	"policy":            {"poddisruptionbudgets"},
}

func readUncached() []permissions.Exception {
	var all []permissions.Exception
	for group, resources := range children {
		for _, resource := range resources {
			all = append(all, permissions.Exception{
				Role: agentInSessions, Group: group, Resource: resource, Verbs: []string{"get"}, Chance: true,
				Because: "a child that the cache does not show is read",
				Test:    "agent/session/children_test.go", Contains: "refused where its name is taken",
			})
		}
	}
	return all
}

// readForNodeGroups are what agents read only of members with node groups, which those of these specs have not.
func readForNodeGroups() []permissions.Exception {
	var all []permissions.Exception
	for group, resources := range map[string][]string{"karpenter.sh": {"nodepools", "nodeclaims"}, "apps": {"daemonsets"}} {
		for _, resource := range resources {
			all = append(all, permissions.Exception{
				Role: "ClusterRole vdi-agent-node-groups", Group: group, Resource: resource, Verbs: []string{"list", "watch"},
				Because: "a member's autoscaler adds nodes for sessions",
				Test:    "test/elastic/grow_test.go", Contains: "adds nodes for the sessions that are placed there",
			})
		}
	}
	return all
}

// writtenForBuffers are what agents request only of members with buffers, which those of these specs have not.
func writtenForBuffers() []permissions.Exception {
	return []permissions.Exception{{
		Role: "Role vdi-agent-buffers", Group: "apps", Resource: "deployments", Verbs: []string{"list", "watch", "create", "update", "delete"},
		Because: "a member keeps slots free for sessions",
		Test:    "test/elastic/buffer_test.go", Contains: "runs a burst at once on the slots of the buffer",
	}}
}

// agentExceptions are the permissions that agents need in other suites only.
var agentExceptions = append(slices.Concat(readUncached(), readForNodeGroups(), writtenForBuffers()), []permissions.Exception{
	{Role: agentEverywhere, Group: "vdi.kasm.io", Resource: "sessionassignments", Verbs: []string{"get"},
		Because: "before an order is refused where the agent has no permissions, it checks that nothing of it is stored",
		Test:    "test/integration/permissions_test.go", Contains: "is refused in a namespace that is labeled and where the agent has no permissions"},
	{Role: agentEverywhere, Group: "vdi.kasm.io", Resource: "sessionassignments", Verbs: []string{"patch"},
		Because: "a namespace that is deleted may lose the agent's RoleBinding before its assignments, whose finalizers are removed nevertheless",
		Test:    "test/integration/namespace_test.go", Contains: "of a member ends, and its sessions are placed elsewhere or show why not"},
	{Role: agentInSessions, Group: "gateway.networking.k8s.io", Resource: "httproutes", Verbs: []string{"get", "list", "watch", "create", "patch", "delete"},
		Because: "desktops are reached by a Gateway, where the agent has --gateway",
		Test:    "agent/session/routes_test.go", Contains: "leads to desktops by HTTPRoutes, which are repaired like any child"},
	{Role: agentInSessions, Group: "vdi.kasm.io", Resource: "sessionassignments/finalizers", Verbs: []string{"update"},
		Because: "admission requires it, and no request does, before a child is owned by an assignment that is to outlast it",
		Test:    "test/harness/component/component.go", Contains: "OwnerReferencesPermissionEnforcement"},
	{Role: agentInSessions, Group: "vdi.kasm.io", Resource: "sessionassignments/status", Verbs: []string{"patch"}, Chance: true,
		Because: "a lease that lapsed is numbered in the assignments, whatever else is written there",
		Test:    "agent/session/fence_lifecycle_test.go", Contains: "stops when the lease is over, and runs again once the hub has affirmed it"},
	{Role: agentInSessions, Group: "events.k8s.io", Resource: "events", Verbs: []string{"patch"}, Chance: true,
		Because: "client-go counts an event that repeats within six minutes in the first one",
		Test:    "proto/recorder/recorder_test.go", Contains: "func TestAFloodOfEventsIsDropped"},
	{Role: agentInSessions, Resource: "secrets", Verbs: []string{"get", "delete"}, Chance: true,
		Because: "a Secret of the session's name that the cache does not show is read, and one that can't be revised is recreated",
		Test:    "agent/assignment/real_test.go", Contains: "func TestStoreOverARealAPIServer"},
	{Role: agentInSessions, Group: "networking.k8s.io", Resource: "networkpolicies", Verbs: []string{"patch", "delete"}, Chance: true,
		Because: "a policy that no Pod has used for ten minutes is marked and deleted, and drift is repaired",
		Test:    "agent/retention/shared_test.go", Contains: "are deleted once no Pod uses them for a while"},
	{Role: agentInSessions, Group: "networking.k8s.io", Resource: "ingresses", Verbs: []string{"patch"}, Chance: true,
		Because: "drift of an Ingress is repaired, which no spec here causes on purpose",
		Test:    "agent/session/repair_test.go", Contains: "reverts drift, and keeps what others added"},
	{Role: agentInSessions, Group: "policy", Resource: "poddisruptionbudgets", Verbs: []string{"patch", "delete"}, Chance: true,
		Because: "a budget that no Pod has used for ten minutes is marked and deleted, and drift is repaired",
		Test:    "agent/retention/shared_test.go", Contains: "are deleted once no Pod uses them for a while"},
	{Role: "Role vdi-agent-node-groups", Resource: "configmaps", Name: "cluster-autoscaler-status", Verbs: []string{"get", "list", "watch"},
		Because: "a member's node group may be one of cluster-autoscaler",
		Test:    "agent/capacity/watch_groups_test.go", Contains: "func TestOnlyWhatAGroupNeedsIsWatched"},
	{Role: agentInSessions, Resource: "events", Verbs: []string{"list"},
		Because: "an autoscaler states in an event of a Pod that it adds no node for it",
		Test:    "agent/capacity/rejections_real_test.go", Contains: "func TestEventsOfPodsOnARealAPIServer"},
	{Role: agentAtHome, Resource: "secrets", Verbs: []string{"create"},
		Because: "an agent that joins keeps its identity", Test: "test/faults/stage/stage.go", Contains: "Enroll: s.Kind.Enroll"},
	{Role: agentAtHome, Resource: "secrets", Name: "vdi-agent-identity", Verbs: []string{"get", "update"},
		Because: "an agent that joins keeps its identity", Test: "test/faults/stage/stage.go", Contains: "Enroll: s.Kind.Enroll"},
	{Role: agentAtHome, Resource: "secrets", Name: "vdi-agent-bootstrap", Verbs: []string{"get", "update"},
		Because: "an agent joins with the token of that Secret, and removes it", Test: "test/faults/stage/stage.go", Contains: "Enroll: s.Kind.Enroll"},
	{Role: agentAtHome, Resource: "secrets", Name: "vdi-agent-guard", Verbs: []string{"get"},
		Because: "guards verify the agent's answers by a key", Test: "test/faults/stage/stage.go", Contains: "Kubelets: s.Kind.Kubelets"},
	{Role: agentAtHome, Resource: "configmaps", Name: "vdi-agent-fence", Verbs: []string{"update"},
		Because: "a lapse of the hub's lease is recorded", Test: "test/faults/stage/stage.go", Contains: "Kubelets: s.Kind.Kubelets"},
	{Role: agentOfDoor, Resource: "configmaps", Name: "vdi-door", Verbs: []string{"delete"},
		Because: "a hub without a console admits no browsers", Test: "agent/exposure/keeper_test.go", Contains: "func TestWithoutAConsoleTheDoorIsNotInForce"},
	{Role: agentOfDoor, Group: "networking.k8s.io", Resource: "ingresses", Name: "vdi-door", Verbs: []string{"update", "delete"},
		Because: "drift of the door's Ingress is repaired, and it is deleted if the hub has no console", Test: "agent/exposure/keeper_test.go", Contains: "func TestTheIngressIsRepaired"},
	{Role: agentOfDoor, Group: "gateway.networking.k8s.io", Resource: "httproutes", Verbs: []string{"create"},
		Because: "the door is reached by a Gateway, where the agent has --gateway", Test: "agent/exposure/keeper_test.go", Contains: "func TestMembersWithAGateway"},
	{Role: agentOfDoor, Group: "gateway.networking.k8s.io", Resource: "httproutes", Name: "vdi-door", Verbs: []string{"get", "update", "delete"},
		Because: "the door is reached by a Gateway, where the agent has --gateway", Test: "agent/exposure/keeper_test.go", Contains: "func TestMembersWithAGateway"},
	{Role: agentAtHome, Group: "events.k8s.io", Resource: "events", Verbs: []string{"create", "patch"},
		Because: "JoinNeeded is an event of the agent's own Secret", Test: "agent/identity/keeper_test.go", Contains: "events.NewFakeRecorder"},
}...)

// requiredByAdmission returns the permissions that admission policies require when the hub changes
// an object, and that no request names.
func requiredByAdmission() []permissions.Exception {
	all := []permissions.Exception{{
		Role: hubEverywhere, Group: "vdi.kasm.io", Resource: "vdisessions", Verbs: []string{"administer"},
		Because: "the hub changes sessions of all users",
		Test:    "test/api/session_owner_test.go", Contains: "allow the hub to work, in whatever namespace it is installed",
	}}
	for resource, test := range map[string]string{
		"vdisessions/finalizers": "allow the hub to work, in whatever namespace it is installed", "vdihomes/finalizers": `"vdihomes", vdi.HomeFinalizer`,
		"memberclusters/finalizers": `"memberclusters", vdi.MemberFinalizer`, "vditemplates/finalizers": `"vditemplates", vdi.TemplateFinalizer`,
	} {
		all = append(all, permissions.Exception{
			Role: hubEverywhere, Group: "vdi.kasm.io", Resource: resource, Verbs: []string{"update"},
			Because: "only the hub removes its finalizers", Test: "test/api/session_owner_test.go", Contains: test,
		})
	}
	return all
}

// hubExceptions are the permissions that the hub needs in other suites only.
var hubExceptions = append(requiredByAdmission(), []permissions.Exception{
	{Role: hubEverywhere, Group: "vdi.kasm.io", Resource: "memberclusters", Verbs: []string{"get"},
		Because: "an agent that joins is read without a cache", Test: "hub/identity/apiserver_test.go", Contains: "func TestALifeOnARealAPIServer"},
	{Role: hubEverywhere, Group: "vdi.kasm.io", Resource: "placementreviews", Verbs: []string{"delete"},
		Because: "a review that was answered is deleted after a while", Test: "hub/review/lasts_test.go", Contains: "func TestAReviewThatWasNeverAnsweredIsDeleted"},
	{Role: hubEverywhere, Group: "vdi.kasm.io", Resource: "placementreviews/status", Verbs: []string{"patch"},
		Because: "a review is answered", Test: "test/placement/dryrun_test.go", Contains: "PlacementReview"},
	{Role: hubEverywhere, Group: "vdi.kasm.io", Resource: "vdihomes", Verbs: []string{"delete"},
		Because: "an unused home is deleted", Test: "hub/session/home_controller_test.go", Contains: "func TestHomeExpiresAfterItsRetentionTime"},
	{Role: hubInSessions, Resource: "secrets", Verbs: []string{"get", "delete"}, Chance: true,
		Because: "a Secret of the session's name that the cache does not show is read, and one that is not wanted any more is deleted",
		Test:    "hub/session/secret_test.go", Contains: "never replaces a Secret of another owner"},
	{Role: hubUserRoles, Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Verbs: []string{"update"},
		Because: "drift of the binding of a user's Role is repaired", Test: "hub/access/apiserver_test.go", Contains: "func TestDriftIsRepaired"},
	{Role: hubUserRoles, Group: "rbac.authorization.k8s.io", Resource: "roles", Verbs: []string{"update", "delete"}, Chance: true,
		Because: "a user's Role follows the user's sessions", Test: "hub/access/apiserver_test.go", Contains: "func TestABurstCostsFewWrites"},
	{Role: hubUserRoles, Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Verbs: []string{"delete"}, Chance: true,
		Because: "the binding is deleted with a user's last session", Test: "hub/access/apiserver_test.go", Contains: "func TestUnusedRolesAreRemoved"},
	{Role: hubAtHome, Resource: "secrets", Verbs: []string{"update", "delete"},
		Because: "the hub is a certificate authority: it rotates its CA, uses up tokens, and removes old ones",
		Test:    "hub/identity/apiserver_test.go", Contains: "func TestALifeOnARealAPIServer"},
}...)

// consoleExceptions are the permissions that the console needs in other suites only.
var consoleExceptions = []permissions.Exception{
	{Role: "Role vdi-console", Resource: "secrets", Name: "vdi-console-keys", Verbs: []string{"update"},
		Because: "the keys are rotated every week", Test: "hub/console/keys/ring_test.go", Contains: "func Test"},
}

// checkPermissions fails for each request of hub and agents that was denied and, if
// all specs have run, for each permission that was not used.
func checkPermissions() {
	root, err := harness.Root()
	Expect(err).NotTo(HaveOccurred())
	grants := func(of string, inSessions ...string) []permissions.Grant {
		all, err := permissions.Granted(filepath.Join(root, "deploy/charts", of), inSessions...)
		Expect(err).NotTo(HaveOccurred())
		return all
	}
	hubCase := &permissions.Case{
		Grants: grants("vdi-hub/files/rbac.yaml", "vdi-hub-sessions", "vdi-hub-user-roles"), Own: harness.SystemNamespace, Sessions: []string{namespace, second, shut},
		// Users may create sessions in any namespace.
		Everywhere: true,
		Requests:   requests(harness.HubUser, fleet.Hub.ControlPlane), Exceptions: hubExceptions,
	}
	consoleCase := &permissions.Case{
		Grants: grants("vdi-hub/files/console.yaml"), Own: harness.SystemNamespace, Everywhere: true,
		Requests: requests(harness.ConsoleUser, fleet.Hub.ControlPlane), Exceptions: consoleExceptions,
	}
	agentCase := &permissions.Case{
		Grants: grants("vdi-agent/files/rbac.yaml", "vdi-agent-sessions"), Own: harness.SystemNamespace, Sessions: []string{namespace, second, shut},
		Exceptions: agentExceptions,
	}
	var planes []*harness.ControlPlane
	for _, m := range fleet.Members {
		planes = append(planes, m.ControlPlane)
	}
	agentCase.Requests = requests(harness.AgentUser, planes...)
	doorCase := &permissions.Case{
		Grants: grants("vdi-agent/files/door.yaml", "vdi-door-sessions"), Own: harness.SystemNamespace, Sessions: []string{namespace, second, shut},
		Requests: requests(harness.DoorUser, memberNamed(behindDoor).ControlPlane),
	}
	for holder, c := range map[string]*permissions.Case{"the hub": hubCase, "the console": consoleCase, "agents": agentCase, "doors": doorCase} {
		Expect(c.Requests).NotTo(BeEmpty(), "requests of "+holder)
		Expect(c.Denied()).To(BeEmpty(), "requests of "+holder+" that no role allows")
		if wholeSuite() {
			Expect(c.Unused(root)).To(BeEmpty(), "roles of "+holder)
		}
	}
}

func requests(user string, planes ...*harness.ControlPlane) map[permissions.Request]bool {
	all := map[permissions.Request]bool{}
	for _, plane := range planes {
		requests, err := permissions.RequestsOf(plane.AuditLog(), user)
		Expect(err).NotTo(HaveOccurred())
		for r := range requests {
			all[r] = true
		}
	}
	return all
}

// wholeSuite reports whether no spec was left out.
func wholeSuite() bool {
	config, _ := GinkgoConfiguration()
	return len(config.FocusStrings)+len(config.SkipStrings)+len(config.FocusFiles)+len(config.LabelFilter) == 0 && !testing.Short()
}

var _ = Describe("What is not the fleet's", func() {
	It("is not accepted from a namespace that the hub does not serve", func(ctx SpecContext) {
		s := create(ctx, newSession("unserved", in(metav1.NamespaceDefault)))
		Eventually(ctx, reason(s, v1alpha1.ConditionAccepted)).Should(Equal(v1alpha1.ReasonNamespaceNotAllowed))
		Expect(message(s)(ctx)).To(And(ContainSubstring(namespace), ContainSubstring("--session-namespaces")))
	})

	It("is refused in a namespace that is labeled and where the agent has no permissions, until they are granted", func(ctx SpecContext) {
		const late = "not-admitted" // a namespace of the hub, and now of a member
		m := memberNamed("eu-west")
		Expect(m.ControlPlane.EnsureNamespace(ctx, late, map[string]string{v1alpha1.LabelAdmitSessions: "true"})).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(m.ControlPlane.EnsureNamespace(ctx, late, nil)).To(Succeed())
		})
		s := create(ctx, newSession("bound", in(late), inRegion("eu-west")))
		Eventually(ctx, message(s)).Should(ContainSubstring("vdi-agent-sessions"))
		Expect(m.ControlPlane.AdmitSessions(ctx, late)).To(Succeed())
		awaitRunning(ctx, s)
	})

	It("is counted in its event by client-go's recorder, as the hub's roles allow, when it comes again", func(ctx SpecContext) {
		// The hub has that recorder, and most of its events are of objects that have
		// changed since: those are new events.
		config, err := fleet.Hub.ControlPlane.ConfigFor(harness.HubUser)
		Expect(err).NotTo(HaveOccurred())
		api, err := kubernetes.NewForConfig(config)
		Expect(err).NotTo(HaveOccurred())
		broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: api.EventsV1()})
		DeferCleanup(broadcaster.Shutdown)
		Expect(broadcaster.StartRecordingToSinkWithContext(context.Background())).To(Succeed())
		s := awaitRunning(ctx, create(ctx, newSession("again")))
		recorder := broadcaster.NewRecorder(hub.Scheme(), "vdi-hub")
		for range 2 {
			recorder.Eventf(s, nil, corev1.EventTypeNormal, "Again", "Report", "it comes again")
		}
		Eventually(ctx, func(ctx context.Context) (int32, error) {
			list, err := fleet.Hub.ControlPlane.Client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return 0, err
			}
			for i := range list.Items {
				if e := &list.Items[i]; e.Regarding.UID == s.UID && e.Reason == "Again" && e.Series != nil {
					return e.Series.Count, nil
				}
			}
			return 0, nil
		}).Should(BeNumerically(">=", 2))
	})
})
