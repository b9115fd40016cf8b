package integration

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

var _ = Describe("The inputs of a desktop", func() {
	It("is the template's and the session's config, kept up to date in a ConfigMap", func(ctx SpecContext) {
		template(ctx, "configured", func(t *v1alpha1.TemplateSpec) {
			t.Files = []v1alpha1.ConfigFile{{Name: "motd", Content: "welcome"}, {Name: "proxy", Content: "none"}}
			t.OverridableFiles = []string{"proxy"}
		})
		s := awaitRunning(ctx, create(ctx, newSession("configured", of("configured"), func(s *v1alpha1.VDISession) {
			s.Spec.Files = []v1alpha1.ConfigFile{{Name: "proxy", Content: "proxy.example.com"}}
			s.Spec.Env = []v1alpha1.EnvVar{{Name: "LAUNCH_URL", Value: "https://intranet.example.com"}}
		})))
		name := v1alpha1.AssignmentName(s.Name, s.UID)
		core := memberNamed(s.Status.Placement.ClusterName).ControlPlane.Client.CoreV1()
		data := func(key string) func(context.Context) (string, error) {
			return func(ctx context.Context) (string, error) {
				cm, err := core.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
				return cm.Data[key], err
			}
		}
		Expect(data("motd")(ctx)).To(Equal("welcome"))
		Expect(data("proxy")(ctx)).To(Equal("proxy.example.com"))
		Eventually(ctx, func(ctx context.Context) (*v1alpha1.SessionConfig, error) {
			now, err := get(ctx, s)
			return now.Status.Config, err
		}).Should(HaveField("Name", name))
		before, err := get(ctx, s)
		Expect(err).NotTo(HaveOccurred())
		pod, err := core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(pod.Spec.Containers[0].Env).To(ContainElement(corev1.EnvVar{Name: "LAUNCH_URL", Value: "https://intranet.example.com"}))

		By("changing it by hand, which is repaired")
		cm, err := core.ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		cm.Data["motd"] = "go away"
		_, err = core.ConfigMaps(namespace).Update(ctx, cm, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, data("motd")).Should(Equal("welcome"))

		By("changing a file in the session, which reaches it without a new Pod")
		change(ctx, s, func(s *v1alpha1.VDISession) { s.Spec.Files[0].Content = "other.example.com" })
		Eventually(ctx, data("proxy")).Should(Equal("other.example.com"))
		Eventually(ctx, func(ctx context.Context) (string, error) {
			now, err := get(ctx, s)
			return now.Status.Config.Hash, err
		}).ShouldNot(Equal(before.Status.Config.Hash))
		now, err := core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(now.UID).To(Equal(pod.UID))
	})

	It("is its pull secret, if the hub's administrator allows to send it", func(ctx SpecContext) {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: harness.SystemNamespace, Name: "registry", Labels: map[string]string{v1alpha1.LabelSecret: v1alpha1.SecretDistribute}},
			Type:       corev1.SecretTypeDockerConfigJson,
			Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{}}`)},
		}
		Expect(hub.Create(ctx, secret)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(hub.Delete(ctx, secret)).To(Succeed()) })
		template(ctx, "pulled", func(t *v1alpha1.TemplateSpec) {
			t.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}, {Name: "of-the-member"}}
		})
		s := awaitRunning(ctx, create(ctx, newSession("pulled", of("pulled"))))
		core := memberNamed(s.Status.Placement.ClusterName).ControlPlane.Client.CoreV1()
		pod, err := core.Pods(namespace).Get(ctx, v1alpha1.AssignmentName(s.Name, s.UID), metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(pod.Spec.ImagePullSecrets).To(HaveLen(2))
		Expect(pod.Spec.ImagePullSecrets[1].Name).To(Equal("of-the-member"))
		name := pod.Spec.ImagePullSecrets[0].Name
		there, err := core.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(there.Type).To(Equal(corev1.SecretTypeDockerConfigJson))
		Expect(there.Data).To(Equal(secret.Data))

		By("deleting it in the member, which has the hub send it again")
		Expect(core.Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		Eventually(ctx, func(ctx context.Context) (map[string][]byte, error) {
			there, err := core.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
			return there.Data, client.IgnoreNotFound(err)
		}).Should(Equal(secret.Data))
		Expect(hub.Delete(ctx, s)).To(Succeed())
		awaitGone(ctx, s)
		Eventually(ctx, func(ctx context.Context) (int, error) {
			list, err := core.Secrets(namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelSessionUID + "=" + string(s.UID)})
			return len(list.Items), err
		}).Should(BeZero())
	})

	It("is time while it is used: an idle desktop is ended, a used one is not", func(ctx SpecContext) {
		port := startDesktop(ctx)
		template(ctx, "watched", func(t *v1alpha1.TemplateSpec) {
			t.Image, t.Port, t.Protocol = "loopback.invalid/desktop:1", int32(port), v1alpha1.ProtocolHTTP
			t.Activity.Path = "/.well-known/vdi/activity"
			t.IdleTimeout = v1alpha1.TimeLimit{Default: "6s"}
		})
		s := awaitRunning(ctx, create(ctx, newSession("watched", of("watched"))))
		use := func() error { return useDesktop(ctx, port) }
		Consistently(ctx, func(ctx context.Context) (v1alpha1.SessionPhase, error) {
			if err := use(); err != nil {
				return "", err
			}
			return phase(s)(ctx)
		}).WithTimeout(10 * time.Second).WithPolling(500 * time.Millisecond).Should(Equal(v1alpha1.PhaseRunning))

		By("leaving it unused")
		Eventually(ctx, phase(s)).Should(Equal(v1alpha1.PhaseFailed))
		Expect(reason(s, v1alpha1.ConditionProgressing)(ctx)).To(Equal(v1alpha1.ReasonIdleExpired))
		Eventually(ctx, func(ctx context.Context) ([]string, error) { return podsOf(ctx, s.UID) }).Should(BeEmpty())
		Expect(message(s)(ctx)).To(ContainSubstring("spec.attempt"))
		Expect(use()).To(Succeed())
		change(ctx, s, func(s *v1alpha1.VDISession) { s.Spec.Attempt++ })
		awaitRunning(ctx, s)
	})
})

// startDesktop runs the sample desktop on a free port of this machine.
func startDesktop(ctx context.Context) int {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed at once
	Expect(err).NotTo(HaveOccurred())
	port := listener.Addr().(*net.TCPAddr).Port
	Expect(listener.Close()).To(Succeed())
	root, err := harness.Root()
	Expect(err).NotTo(HaveOccurred())
	binary := filepath.Join(GinkgoT().TempDir(), "desktop")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./test/desktop")
	build.Dir, build.Stderr = root, GinkgoWriter
	Expect(build.Run()).To(Succeed())
	desktop := exec.Command(binary, "--listen", "127.0.0.1:"+strconv.Itoa(port)) //nolint:noctx // it is stopped by the cleanup
	desktop.Stdout, desktop.Stderr = GinkgoWriter, GinkgoWriter
	Expect(desktop.Start()).To(Succeed())
	DeferCleanup(func() {
		Expect(desktop.Process.Signal(os.Interrupt)).To(Succeed())
		_ = desktop.Wait()
	})
	Eventually(ctx, func() error { return useDesktop(ctx, port) }).Should(Succeed())
	return port
}

// useDesktop reports activity as the desktop's page does when a key is pressed.
func useDesktop(ctx context.Context, port int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/activity", port), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return fmt.Errorf("the desktop answers %s", resp.Status)
	}
	return nil
}
