package protocol

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

// realMember is a real control plane with a real agent process, connected
// to a hub that has only the link and a directory.
type realMember struct {
	*WithT
	t      *testing.T
	plane  *harness.ControlPlane
	api    client.Client
	hub    *hubServer
	record *record
	agent  *harness.Process
}

func startRealMember(t *testing.T) *realMember {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	m := &realMember{WithT: patient(t), t: t}
	m.SetDefaultEventuallyTimeout(30 * time.Second)
	var err error
	m.plane, err = harness.StartControlPlane(t.Context(), harness.ControlPlaneOptions{
		CRDDirs: []string{"../../deploy/charts/vdi-agent/files/crds"},
		Nodes:   []kwok.NodeGroup{{Count: 2, Region: "eu", Zone: "eu-a"}},
		Namespaces: map[string]map[string]string{
			"desks": {v1alpha1.LabelAdmitSessions: "true"}, "plain": nil, harness.SystemNamespace: nil,
		},
	})
	m.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { _ = m.plane.Stop() })
	scheme := runtime.NewScheme()
	m.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	m.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	m.api, err = client.New(m.plane.Config, client.Options{Scheme: scheme})
	m.Expect(err).NotTo(HaveOccurred())

	dir := newDirectory("m1")
	m.record, m.hub = dir.of("m1"), startHub(t, dir)
	m.authorize()
	m.startAgent()
	return m
}

// authorize grants the agent the roles that the product ships, and no more.
func (m *realMember) authorize() {
	m.t.Helper()
	_, err := m.plane.AuthorizeAgent(m.t.Context(), "desks")
	m.Expect(err).NotTo(HaveOccurred())
}

// agentDir holds the agent's executable, if a test built it.
var agentDir string

var agentBinary = sync.OnceValues(func() (path string, err error) {
	if agentDir, err = os.MkdirTemp("", "vdi-agent"); err != nil {
		return "", err
	}
	path = filepath.Join(agentDir, "agent")
	if out, err := exec.Command("go", "build", "-o", path, "../../cmd/agent").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the agent: %w: %s", err, out)
	}
	return path, nil
})

func (m *realMember) startAgent() {
	m.t.Helper()
	binary, err := agentBinary()
	m.Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := m.plane.KubeconfigFor(harness.AgentUser)
	m.Expect(err).NotTo(HaveOccurred())
	files, err := m.hub.pki.Agent("m1", "m1")
	m.Expect(err).NotTo(HaveOccurred())
	m.agent = harness.NewProcess(harness.ProcessSpec{
		Name: "agent", Path: binary, Dir: m.t.TempDir(), Args: []string{
			"--kubeconfig=" + kubeconfig, "--hub-address=" + m.hub.address, "--hub-server-name=localhost",
			"--tls-cert-file=" + files.CertFile, "--tls-key-file=" + files.KeyFile, "--hub-ca-file=" + files.CAFile,
			"--member=m1", "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
			"--time-factor=0.02",
		},
	})
	m.Expect(m.agent.Start()).To(Succeed())
	m.t.Cleanup(func() {
		if m.t.Failed() {
			m.t.Log(m.agent.LogTail())
		}
		_ = m.agent.Kill()
	})
	m.Eventually(m.record.connected).Should(BeTrue())
}

// desk returns an assignment whose desktop runs.
func desk(uid string, epoch int64) *v1alpha1.SessionAssignment {
	a := assignment(uid, epoch, "").Assign
	a.Annotations = nil
	a.Spec.Session.Namespace, a.Spec.Session.Name = "users", uid
	a.Spec.User, a.Spec.Template, a.Spec.TemplateRevision = "ada", "browser", "r1"
	a.Spec.RunState, a.Spec.Host = v1alpha1.ModeRunning, uid+".example.com"
	a.Spec.Desktop = v1alpha1.Desktop{Image: "desk:1", Port: 8080, Protocol: v1alpha1.ProtocolHTTP,
		Resources: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("256Mi")}}
	return a
}

// result waits for the result with a code for a session and epoch.
func (m *realMember) result(uid string, epoch int64, code protocol.Code) protocol.Result {
	m.t.Helper()
	var found protocol.Result
	m.Eventually(func() bool {
		return get(m.record, func(r *record) bool {
			i := slices.IndexFunc(r.results, func(x protocol.Result) bool {
				return string(x.SessionUID) == uid && x.Epoch == epoch && x.Code == code
			})
			if i >= 0 {
				found = r.results[i]
			}
			return i >= 0
		})
	}).Should(BeTrue(), "%s e%d %s", uid, epoch, code)
	return found
}

func (m *realMember) ready(uid string, epoch int64) func() bool {
	return func() bool {
		return get(m.record, func(r *record) bool {
			a := r.reported[uid]
			return a != nil && a.Spec.Epoch == epoch && meta.IsStatusConditionTrue(a.Status.Conditions, v1alpha1.ConditionPodReady)
		})
	}
}

func (m *realMember) pods(uid string) int {
	list := &corev1.PodList{}
	m.Expect(m.api.List(m.t.Context(), list, client.InNamespace("desks"), client.MatchingLabels{v1alpha1.LabelSessionUID: uid})).To(Succeed())
	return len(list.Items)
}

func (m *realMember) delete(o client.Object, name string) {
	o.SetNamespace("desks")
	o.SetName(name)
	m.Expect(m.api.Delete(m.t.Context(), o)).To(Succeed())
}

func TestAgentOverARealControlPlane(t *testing.T) {
	m := startRealMember(t)

	// An assignment is stored, runs, is reported, and counted.
	m.record.put(protocol.Order{Assign: desk("s1", 1)})
	stored := m.result("s1", 1, protocol.Stored)
	m.Expect(stored.CountedFrom).To(BeNumerically(">", 0))
	m.Eventually(m.ready("s1", 1)).Should(BeTrue())
	m.Eventually(func() bool {
		return get(m.record, func(r *record) bool {
			return slices.ContainsFunc(r.capacity, func(c *fleetv1.CapacityReport) bool {
				return c.GetSequence() >= stored.CountedFrom && c.GetAssignments() == 1
			})
		})
	}).Should(BeTrue())

	// Refusals are per item.
	elsewhere := desk("s2", 1)
	elsewhere.Namespace = "plain"
	m.record.put(protocol.Order{Assign: elsewhere})
	m.Expect(m.result("s2", 1, protocol.Refused).Reason).To(Equal(v1alpha1.RefusedNamespaceNotAdmitted))
	bad := desk("s3", 1)
	bad.Spec.RunState = "Sideways"
	m.record.put(protocol.Order{Assign: bad})
	m.Expect(m.result("s3", 1, protocol.Refused)).To(And(HaveField("Reason", v1alpha1.RefusedInvalid), HaveField("Message", ContainSubstring("Sideways"))))

	// Without the hub the member continues, and reports when the hub is back.
	m.hub.stop()
	m.delete(&corev1.Pod{}, "s1")
	m.Eventually(func() int { return m.pods("s1") }).Should(Equal(1))
	m.hub.term = 2
	m.hub.start()
	m.Eventually(m.record.connected).Should(BeTrue())
	m.Eventually(m.ready("s1", 1)).Should(BeTrue())

	// An agent that is killed restarts with a higher term and the same state.
	m.Expect(get(m.record, func(r *record) int64 { return r.hello.AgentTerm })).To(Equal(int64(1)))
	m.Expect(m.agent.Kill()).To(Succeed())
	m.Eventually(m.record.connected).Should(BeFalse())
	m.record.put(protocol.Order{Assign: desk("s4", 1)})
	m.startAgent()
	m.Expect(get(m.record, func(r *record) *fleetv1.Hello { return r.hello })).To(And(
		HaveField("AgentTerm", int64(2)), HaveField("HighestHubTerm", int64(2))))
	m.Eventually(m.ready("s1", 1)).Should(BeTrue())

	// An idle agent writes nothing.
	m.settled()
	mark, err := harness.AuditMark(m.plane.AuditLog())
	m.Expect(err).NotTo(HaveOccurred())
	m.Consistently(func() ([]harness.WriteCount, error) {
		return harness.CountWrites(m.plane.AuditLog(), harness.CountOptions{Offset: mark, Users: []string{"vdi-agent"}, Leases: true, Events: true})
	}, "3s", "500ms").Should(BeEmpty())

	m.stops()
}

// settled waits until the agent has stopped writing statuses.
func (m *realMember) settled() {
	last := ""
	m.Eventually(func() bool {
		a := &v1alpha1.SessionAssignment{}
		m.Expect(m.api.Get(m.t.Context(), client.ObjectKey{Namespace: "desks", Name: "s1"}, a)).To(Succeed())
		same := last == a.ResourceVersion
		last = a.ResourceVersion
		return same
	}, "30s", "3s").Should(BeTrue())
}

// stops tests all ways in which an assignment ends.
func (m *realMember) stops() {
	// Withdrawn: Stored, then Stopped, and nothing is left.
	m.record.put(withdrawal("s1", 1))
	m.result("s1", 1, protocol.Stopped)
	m.Expect(m.pods("s1")).To(BeZero())
	m.Expect(client.IgnoreNotFound(m.api.Get(m.t.Context(), client.ObjectKey{Namespace: "desks", Name: "s1"}, &v1alpha1.SessionAssignment{}))).To(Succeed())

	// Withdrawn and rescheduled at once: the second waits for the first.
	m.record.put(protocol.Order{Assign: desk("s5", 1)})
	m.Eventually(m.ready("s5", 1)).Should(BeTrue())
	m.record.put(withdrawal("s5", 1))
	m.record.put(protocol.Order{Assign: desk("s5", 2)})
	m.result("s5", 1, protocol.Stopped)
	m.result("s5", 2, protocol.Stored)
	m.Eventually(m.ready("s5", 2)).Should(BeTrue())

	// Deleted by hand: Stopped, without an order.
	m.delete(&v1alpha1.SessionAssignment{}, "s5")
	m.result("s5", 2, protocol.Stopped)

	// Without the API server an order waits, and nothing is reported.
	m.Expect(m.plane.APIServer.Pause()).To(Succeed())
	m.record.put(protocol.Order{Assign: desk("s6", 1)})
	m.Consistently(func() bool {
		return get(m.record, func(r *record) bool {
			return slices.ContainsFunc(r.results, func(x protocol.Result) bool { return x.SessionUID == "s6" })
		})
	}, "1s").Should(BeFalse())
	m.Expect(m.plane.APIServer.Resume()).To(Succeed())
	m.result("s6", 1, protocol.Stored)
	m.Eventually(m.ready("s6", 1)).Should(BeTrue())

	// A deletion while the hub is down is reported by the next inventory.
	m.hub.stop()
	m.delete(&v1alpha1.SessionAssignment{}, "s6")
	m.Eventually(func() error {
		return m.api.Get(m.t.Context(), client.ObjectKey{Namespace: "desks", Name: "s6"}, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "SessionAssignment"}})
	}).ShouldNot(Succeed())
	m.hub.start()
	m.result("s6", 1, protocol.Stopped)
}
