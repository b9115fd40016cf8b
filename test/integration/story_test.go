package integration

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// seen is what the whole suite has shown so far.
var seen *story

// story records every reason that a condition of a session, an assignment or a member ever had,
// and every change of a session's phase.
type story struct {
	mu      sync.Mutex
	reasons map[string]bool
	// of has the reasons of each session, as condition/reason.
	of     map[types.UID]map[string]bool
	steps  map[string]bool
	phases map[types.UID]v1alpha1.SessionPhase
}

// steps are the changes of phase that a session can make.
var steps = []string{
	"Pending to Creating", "Pending to Failed", "Pending to Terminating",
	"Creating to Running", "Creating to Failed", "Creating to Pending", "Creating to Terminating",
	"Running to Creating", "Running to Pending", "Running to Failed", "Running to Terminating",
	"Failed to Creating", "Failed to Pending", "Failed to Terminating",
}

// elsewhere are the reasons that no healthy fleet of three members shows, with
// the suite that does, on real API servers as well.
var elsewhere = map[string]string{
	v1alpha1.ReasonNoMembers:          "hub/session: a fleet without members",
	v1alpha1.ReasonHubRestored:        "hub/session: a hub that was restored from a backup",
	v1alpha1.ReasonPolicyCap:          "test/placement and hub/session: caps of policies",
	v1alpha1.ReasonSessionNotFound:    "hub/session: a review of a session that there is not",
	v1alpha1.ReasonTooManyReviews:     "hub/session: TestReviewsBeyondTheBoundOfANamespaceAreRefusedAndNotComputed",
	v1alpha1.ReasonTemplateInvalid:    "hub/session: a secret that is too large to travel",
	v1alpha1.ReasonFingerprintChanged: "hub/member: TestAgentOfAnotherClusterIsReported",
	v1alpha1.ReasonIncompatible:       "hub/member: TestIncompatibleAgentIsReported",
	v1alpha1.ReasonQuarantined:        "hub/member/health: TestHealthOverSequencesOfEvents; hub/member: TestConditionsOfAMember",
	v1alpha1.ReasonStalled:            "hub/member: TestStalledMemberIsShownUntilItIsStableAgain",
	v1alpha1.ReasonRevoked:            "hub/member: TestRevokedMemberLosesItsCertificatePermanently",
	v1alpha1.ReasonFailoverLosesHome:  "hub/session: a session whose member is lost, and its mode would lose its home",
	v1alpha1.ReasonUnguarded:          "hub/session: a session whose member is lost, with mode Fence",
	v1alpha1.ReasonMemberFenced:       "hub/member: TestDeclarationIsShownForAsLongAsItHolds",
	v1alpha1.ReasonFencedOther:        "hub/member: TestDeclarationOfAnotherClusterDoesNotCount",
	v1alpha1.ReasonFencedAlive:        "hub/member: TestDeclarationIsClearedOnceTheAgentIsBack",
	v1alpha1.ReasonDraining:           "hub/session: a member that is drained",
	v1alpha1.ReasonDrained:            "hub/session: a member that is drained",
	v1alpha1.ReasonSessionsRemain:     "hub/session: a member that is drained, with homes there and no capacity elsewhere",
	v1alpha1.ReasonResourcesInvalid:   "hub/session: TestAcceptance",
	v1alpha1.ReasonSessionTooLarge:    "hub/session: TestASessionThatIsTooLargeIsNotAccepted",
	v1alpha1.ReasonEnvNotAllowed:      "hub/session: TestUserCannotReplaceWhatATemplateLocks",
	v1alpha1.ReasonFileNotAllowed:     "hub/session: TestUserCannotReplaceWhatATemplateLocks",
	v1alpha1.ReasonTooManyHomes:       "hub/session: homes that are left behind",
	v1alpha1.ReasonExcess:             "hub/member: TestAnAgentThatReportsTooMuchIsNamedAndHeldOffForAWhile",
	v1alpha1.ReasonNotEnforced:        "hub/member: TestPodSecurityCondition",
	// These last for a moment, or may be skipped when much changes at once.
	v1alpha1.ReasonSecretMissing:    "agent/session: a Secret that the hub has not sent again yet",
	v1alpha1.ReasonLeaseExpired:     "agent/session: fenced sessions whose lease is over",
	v1alpha1.ReasonGuardUnavailable: "agent/observe: a guard that does not start is not the desktop",
	v1alpha1.ReasonAwaitingHub:      "agent/session: a held desktop whose agent has restarted",
	v1alpha1.ReasonSuspect:          "hub/member: TestConditionsOfAMember",
	v1alpha1.ReasonDisconnected:     "hub/member: TestConditionsOfAMember and TestFlappingStreamCostsNoWrites",
	// Which of these two a fleet shows depends on what issues its certificates.
	v1alpha1.ReasonEnrolled:           "hub/member: TestExpiringCertificateIsReported",
	v1alpha1.ReasonExternallyIssued:   "hub/member: TestFlappingStreamCostsNoWrites",
	v1alpha1.ReasonCertificateExpired: "hub/member: TestExpiringCertificateIsReported",
	v1alpha1.ReasonResyncing:          "hub/member: TestMemberThatDisagreesIsShownAsResyncing",
	v1alpha1.ReasonWithdrawalsStopped: "hub/member: TestWithdrawalsWithoutACauseStop",
	// No member of this suite adds nodes.
	v1alpha1.ReasonPlacedOnNewNode:  "test/elastic: a member without nodes",
	v1alpha1.ReasonNodeProvisioning: "agent/observe, and hub/session: TestSessionWaitsForANodeForMaxProvisioningTime",
	v1alpha1.ReasonScaleUpFailed:    "test/elastic: an exhausted node group",
	// No member of this suite has buffers.
	v1alpha1.ReasonBuffersKept:         "test/elastic: a member with a buffer",
	v1alpha1.ReasonBuffersNotEnabled:   "agent/buffer: TestProblemsOfBuffers",
	v1alpha1.ReasonBufferUnreported:    "hub/member: TestStatusShowsBuffers",
	v1alpha1.ReasonBufferSchedule:      "hub/member: TestStatusShowsBuffers",
	v1alpha1.ReasonBufferPriorityClass: "agent/buffer: TestProblemsOfBuffers",
	v1alpha1.ReasonBufferUnavailable:   "agent/buffer: TestProblemsOfBuffers",
	v1alpha1.ReasonBufferCapacity:      "agent/buffer: TestProblemsOfBuffers",
	v1alpha1.ReasonBufferFailed:        "agent/buffer: TestProblemsOfBuffers",
}

// Every documented reason must have been shown. A run of part of the suite can't check that.
var _ = AfterSuite(func() {
	if seen == nil || !wholeSuite() {
		return
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	var missing []string
	for _, reason := range documented() {
		if !seen.reasons[reason] && elsewhere[reason] == "" {
			missing = append(missing, reason)
		}
	}
	Expect(missing).To(BeEmpty(), "reasons that no spec has shown")
	for _, step := range steps {
		Expect(seen.steps).To(HaveKey(step), "steps from phase to phase that no spec has shown")
	}
})

// watchStory watches the hub and the members for as long as the suite runs.
func watchStory() *story {
	GinkgoHelper()
	s := &story{reasons: map[string]bool{}, of: map[types.UID]map[string]bool{}, steps: map[string]bool{}, phases: map[types.UID]v1alpha1.SessionPhase{}}
	s.watch(fleet.Hub.ControlPlane, "vdisessions", s.session)
	s.watch(fleet.Hub.ControlPlane, "memberclusters", s.member)
	for _, m := range fleet.Members {
		s.watch(m.ControlPlane, "sessionassignments", s.assignment)
	}
	return s
}

func (s *story) watch(cp *harness.ControlPlane, resource string, see func(map[string]any) error) {
	GinkgoHelper()
	factory := dynamicinformer.NewDynamicSharedInformerFactory(cp.Dynamic, 0)
	informer := factory.ForResource(v1alpha1.GroupVersion.WithResource(resource)).Informer()
	note := func(o any) {
		if object, ok := o.(interface{ UnstructuredContent() map[string]any }); ok {
			if err := see(object.UnstructuredContent()); err != nil {
				GinkgoWriter.Println(fmt.Sprintf("reading a %s: %v", resource, err))
			}
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, o any) { note(o) }})
	Expect(err).NotTo(HaveOccurred())
	stop := make(chan struct{})
	factory.Start(stop)
	DeferCleanup(func() {
		close(stop)
		factory.Shutdown()
	})
}

func (s *story) session(content map[string]any) error {
	object := &v1alpha1.VDISession{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, object); err != nil {
		return err
	}
	s.conditions(object.Status.Conditions)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[object.UID] == nil {
		s.of[object.UID] = map[string]bool{}
	}
	for _, c := range object.Status.Conditions {
		s.of[object.UID][c.Type+"/"+c.Reason] = true
	}
	was, is := s.phases[object.UID], object.Status.Phase
	if was != "" && was != is {
		s.steps[fmt.Sprintf("%s to %s", was, is)] = true
	}
	s.phases[object.UID] = is
	return nil
}

// showed reports whether a session ever had a reason.
func (s *story) showed(session types.UID, condition, reason string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[session][condition+"/"+reason]
}

func (s *story) member(content map[string]any) error {
	object := &v1alpha1.MemberCluster{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, object)
	s.conditions(object.Status.Conditions)
	return err
}

func (s *story) assignment(content map[string]any) error {
	object := &v1alpha1.SessionAssignment{}
	err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, object)
	s.conditions(object.Status.Conditions)
	return err
}

func (s *story) conditions(conditions []metav1.Condition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range conditions {
		s.reasons[c.Reason] = true
	}
}

// documented returns the values of all constants of the API named Reason….
func documented() []string {
	GinkgoHelper()
	root, err := harness.Root()
	Expect(err).NotTo(HaveOccurred())
	syntax, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "api/v1alpha1/conditions.go"), nil, 0)
	Expect(err).NotTo(HaveOccurred())
	var out []string
	ast.Inspect(syntax, func(n ast.Node) bool {
		value, ok := n.(*ast.ValueSpec)
		if !ok || len(value.Values) == 0 || len(value.Names[0].Name) < 6 || value.Names[0].Name[:6] != "Reason" {
			return true
		}
		text, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
		Expect(err).NotTo(HaveOccurred())
		out = append(out, text)
		return true
	})
	Expect(len(out)).To(BeNumerically(">", 40), "the constants were not found")
	return out
}
