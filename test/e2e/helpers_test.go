package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/e2e/kindfleet"
)

// Templates of the sample desktop: without a home, and with one.
const (
	sample     = "sample"
	sampleHome = "sample-home"
)

// desktopPort and passwordFile are of the sample desktop.
const (
	desktopPort  = 6901
	passwordFile = "/etc/vdi/access/password"
)

func sampleTemplate() *v1alpha1.VDITemplate {
	size := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return &v1alpha1.VDITemplate{
		ObjectMeta: metav1.ObjectMeta{Name: sample},
		Spec: v1alpha1.TemplateSpec{
			Image: fleet.Images()[0], Port: desktopPort,
			Args:      []string{"-listen", fmt.Sprintf(":%d", desktopPort), "-password-file", passwordFile},
			Resources: v1alpha1.TemplateResources{Default: size}, IngressClassName: sample,
		},
	}
}

func homeTemplate() *v1alpha1.VDITemplate {
	t := sampleTemplate()
	t.Name = sampleHome
	t.Spec.Args = append(t.Spec.Args, "-home", "/home/user")
	t.Spec.Home = v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser, Size: ptr.To(resource.MustParse("64Mi")), MountPath: "/home/user"}
	return t
}

// ensure creates or updates a template on the hub.
func ensure(ctx context.Context, t *v1alpha1.VDITemplate) error {
	spec := t.Spec
	_, err := controllerutil.CreateOrUpdate(ctx, fleet.Hub.Client, t, func() error { t.Spec = spec; return nil })
	return err
}

// ensureClass creates the class of the samples' Ingresses, which no controller serves: desktops
// are reached through their Services.
func ensureClass(ctx context.Context, member *kindfleet.Cluster) error {
	class := &networkingv1.IngressClass{
		ObjectMeta: metav1.ObjectMeta{Name: sample}, Spec: networkingv1.IngressClassSpec{Controller: "vdi-fleet.test/none"},
	}
	err := member.Client.Create(ctx, class)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// newSession creates a session of a template, and deletes it after the spec.
func newSession(ctx context.Context, name, template string, change ...func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
	GinkgoHelper()
	s := &v1alpha1.VDISession{
		ObjectMeta: metav1.ObjectMeta{Namespace: kindfleet.Desktops, Name: name},
		Spec:       v1alpha1.SessionSpec{User: name + "@example.com", Template: template},
	}
	for _, f := range change {
		f(s)
	}
	Expect(fleet.Hub.Client.Create(ctx, s)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(fleet.Hub.Client.Delete(ctx, s))).To(Succeed())
		Eventually(ctx, gone(s)).Should(BeTrue(), "session %s is to go", name)
	})
	return s
}

func inRegion(region string) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) { s.Spec.Placement.RequiredRegions = []string{region} }
}

// preferring makes a session prefer a region, and allows any other.
func preferring(region string) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) { s.Spec.Placement.PreferredRegions = []string{region} }
}

func failing(mode v1alpha1.FailoverMode) func(*v1alpha1.VDISession) {
	return func(s *v1alpha1.VDISession) { s.Spec.Failover.Mode = mode }
}

func gone(s *v1alpha1.VDISession) func(context.Context) bool {
	return func(ctx context.Context) bool {
		return apierrors.IsNotFound(fleet.Hub.Client.Get(ctx, client.ObjectKeyFromObject(s), &v1alpha1.VDISession{}))
	}
}

// read reads the session from the hub.
func read(ctx context.Context, s *v1alpha1.VDISession) error {
	return fleet.Hub.Client.Get(ctx, client.ObjectKeyFromObject(s), s)
}

// running waits until the session runs, in that member if one is named, and returns how long that
// took.
func running(ctx context.Context, s *v1alpha1.VDISession, member string) time.Duration {
	GinkgoHelper()
	began := time.Now()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(read(ctx, s)).To(Succeed())
		g.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseRunning), "%s", why(s))
		if member != "" {
			g.Expect(s.Status.Placement.ClusterName).To(Equal(member))
		}
	}).Should(Succeed())
	return time.Since(began)
}

// why returns the phase, message and conditions of a session.
func why(s *v1alpha1.VDISession) string {
	lines := []string{string(s.Status.Phase) + ": " + s.Status.Message}
	for _, c := range s.Status.Conditions {
		lines = append(lines, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(lines, "\n")
}

// ready reports whether the hub shows the member as Ready.
func ready(name string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		var member v1alpha1.MemberCluster
		err := fleet.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, &member)
		return meta.IsStatusConditionTrue(member.Status.Conditions, v1alpha1.ConditionReady), err
	}
}

// podOf returns the Pod of a session in the member where it runs.
func podOf(ctx context.Context, s *v1alpha1.VDISession) *corev1.Pod {
	GinkgoHelper()
	var pods corev1.PodList
	Expect(fleet.Member(s.Status.Placement.ClusterName).Client.List(ctx, &pods, of(s)...)).To(Succeed())
	Expect(pods.Items).To(HaveLen(1))
	return &pods.Items[0]
}

// of returns the options that list the objects of a session in a member.
func of(s *v1alpha1.VDISession) []client.ListOption {
	return []client.ListOption{client.InNamespace(s.Namespace), client.MatchingLabels{v1alpha1.LabelSessionUID: string(s.UID)}}
}

// visit gets a path of a session's desktop as its user, through its Service, and returns the
// response's body. If send is not empty, it puts that there instead.
func visit(ctx context.Context, s *v1alpha1.VDISession, path, send string) (string, error) {
	var services corev1.ServiceList
	member := fleet.Member(s.Status.Placement.ClusterName)
	if err := member.Client.List(ctx, &services, of(s)...); err != nil {
		return "", err
	}
	if len(services.Items) != 1 {
		return "", fmt.Errorf("%d Services", len(services.Items))
	}
	var secret corev1.Secret
	if err := fleet.Hub.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: s.Status.AccessSecretName}, &secret); err != nil {
		return "", err
	}
	node, err := member.Node(member.ControlPlane())
	if err != nil {
		return "", err
	}
	spec := services.Items[0].Spec
	args := []string{"-sS", "--fail", "--max-time", "5", "-u", string(secret.Data["username"]) + ":" + string(secret.Data["password"])}
	if send != "" {
		args = append(args, "-X", "PUT", "--data-binary", send)
	}
	return node.Exec(ctx, "curl", append(args, fmt.Sprintf("http://%s:%d%s", spec.ClusterIP, spec.Ports[0].Port, path))...)
}
