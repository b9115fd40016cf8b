package agent

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

func TestTheMembersSessionsGoOnWithoutTheHub(t *testing.T) {
	g := NewWithT(t)
	root, err := harness.Root()
	g.Expect(err).NotTo(HaveOccurred())
	member, err := harness.StartControlPlane(t.Context(), harness.ControlPlaneOptions{
		CRDDirs:    []string{filepath.Join(root, "deploy/charts/vdi-agent/files/crds")},
		Nodes:      []kwok.NodeGroup{{Count: 1, Region: "eu", Zone: "eu-a"}},
		Namespaces: map[string]map[string]string{"desks": {v1alpha1.LabelAdmitSessions: "true"}, "vdi-system": nil},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(member.Stop()).To(Succeed()) })
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	admin, err := client.New(member.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())

	options, err := parse(t, "--hub-address=127.0.0.1:1", "--leader-elect=true", "--metrics-bind-address=0",
		"--health-probe-bind-address=0", "--tls-secret=wildcard")
	g.Expect(err).NotTo(HaveOccurred())
	// With the roles of its chart.
	config, err := member.AuthorizeAgent(t.Context(), "desks")
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, config, options) }()
	t.Cleanup(func() { stop(); g.Expect(<-ended).To(Succeed()) })

	a := &v1alpha1.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: "desk"}}
	a.Spec = v1alpha1.SessionAssignmentSpec{
		Session: v1alpha1.SessionReference{Namespace: "users", Name: "desk", UID: "u1"},
		Epoch:   1, User: "ada", Template: "desk", TemplateRevision: "r1", RunState: v1alpha1.ModeRunning, Host: "h.example.com",
		Desktop: v1alpha1.Desktop{Image: "desk:1", Port: 8080, Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}},
	}
	g.Expect(admin.Create(ctx, a)).To(Succeed())
	g.Eventually(func() string {
		pod := &corev1.Pod{}
		if err := admin.Get(ctx, client.ObjectKeyFromObject(a), pod); err != nil {
			return err.Error()
		}
		return string(pod.Status.Phase)
	}).WithTimeout(30 * time.Second).Should(Equal(string(corev1.PodRunning)))
	g.Eventually(func(g Gomega) {
		var events corev1.EventList
		g.Expect(admin.List(ctx, &events, client.InNamespace("vdi-system"))).To(Succeed())
		g.Expect(events.Items).To(ContainElement(HaveField("Reason", "LeaderElection")))
	}).WithTimeout(30*time.Second).Should(Succeed(), "the leader is reported on the lock")
	ingress := &networkingv1.Ingress{}
	g.Expect(admin.Get(ctx, client.ObjectKeyFromObject(a), ingress)).To(Succeed())
	g.Expect(ingress.Spec.TLS).To(HaveExactElements(HaveField("SecretName", "wildcard")), "as the flag sets")
}
