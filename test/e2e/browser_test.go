package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/browser"
	"github.com/vdi-fleet/vdi-fleet/test/e2e/kindfleet"
)

// Images of the desktop and of the ingress controller, as `make kind-test` names them.
const (
	desktopImage = "DESKTOP_IMG"
	ingressImage = "INGRESS_IMG"
)

// artifacts is the folder of the screenshots.
var artifacts = filepath.Join(root, "dist", "e2e")

// Templates of the desktop of deploy/samples: with its home, and without.
const (
	withHome    = "desktop"
	withoutHome = "desktop-without-home"
)

var _ = Describe("A desktop in a real browser", Ordered, Serial, func() {
	BeforeAll(func(ctx SpecContext) {
		for _, name := range []string{desktopImage, ingressImage} {
			if os.Getenv(name) == "" {
				Skip(name + " names no image: `make kind-test` builds them")
			}
		}
		if _, err := exec.LookPath("chromium"); err != nil {
			Skip(browser.ErrNoBrowser.Error())
		}
		for _, name := range []string{desktopImage, ingressImage} {
			Expect(fleet.Load(ctx, fleet.Members, os.Getenv(name))).To(Succeed())
		}
		for _, member := range fleet.Members {
			gateway(ctx, member)
		}
		t := desktopTemplate()
		Expect(ensure(ctx, t)).To(Succeed())
		t = desktopTemplate()
		t.Name, t.Spec.Home = withoutHome, v1alpha1.TemplateHome{Mode: v1alpha1.HomeNone}
		Expect(ensure(ctx, t)).To(Succeed())
	})

	It("is in the console's page, shows what its user types, and still has it after suspension and a bookmark", func(ctx SpecContext) {
		s := newSession(ctx, "typist", withHome, inRegion("eu-west"), ofConsole)
		running(ctx, s, "eu-west")
		reportTime("create to Running of a whole desktop", s.Status.RunningSince.Sub(s.CreationTimestamp.Time))
		desktop, before := visited(ctx, s, "eu-west-typing")
		Expect(desktop.TypeIntoFrame("echo buy milk > ~/note; cat ~/note\n")).To(Succeed())
		_, err := desktop.AwaitFramed(ctx, "what was typed", func(p browser.Picture) bool { return p.Sum != before.Sum })
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, inDesktop).WithArguments(s, "cat", "/home/user/note").Should(Equal("buy milk\n"))
		Expect(desktop.Screenshot(filepath.Join(artifacts, "eu-west-typed.png"))).To(Succeed())
		first := password(ctx, s)

		Expect(desktop.Click("#session form[action$='/suspend'] button")).To(Succeed())
		Eventually(ctx, alive).WithArguments(s).Should(BeEmpty())
		Expect(desktop.Go(s.Status.URL)).To(Succeed(), "a bookmark, which wakes it")
		running(ctx, s, "eu-west")
		Expect(password(ctx, s)).NotTo(Equal(first))
		shown(ctx, desktop)
		sees(ctx, desktop, `[ "$(cat ~/note)" = "buy milk" ]`)
		Expect(desktop.Screenshot(filepath.Join(artifacts, "eu-west-note.png"))).To(Succeed())
	})

	It("is at the same address in the other region when its own is lost, without a click", func(ctx SpecContext) {
		s := newSession(ctx, "traveler", withoutHome, preferring("eu-west"), ofConsole)
		running(ctx, s, "eu-west")
		desktop, _ := visited(ctx, s, "eu-west-before")
		first := s.Status.URL

		DeferCleanup(restore, "eu-west")
		began := time.Now()
		Expect(fleet.Member("eu-west").Stop(ctx)).To(Succeed())
		// A hub that has just begun to lead, or was paused on a busy machine, grants
		// members their whole time again before it moves anything.
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(read(ctx, s)).To(Succeed())
			g.Expect(s.Status.Phase).To(Equal(v1alpha1.PhaseRunning), "%s", why(s))
			g.Expect(s.Status.Placement.ClusterName).To(Equal("us-east"), "%s", why(s))
		}).WithTimeout(5 * defaultTimeout).Should(Succeed())
		Expect(s.Status.URL).To(Equal(first))
		shown(ctx, desktop)
		address, err := desktop.Address()
		Expect(err).NotTo(HaveOccurred())
		Expect(address).To(Equal(first))
		reportTime("a region's loss to its user at the desktop in the other", time.Since(began))
		sees(ctx, desktop, `[ "$(hostname)" = "`+podOf(ctx, s).Name+`" ]`)
		Expect(desktop.Screenshot(filepath.Join(artifacts, "us-east-after.png"))).To(Succeed())
	})
})

// ofConsole makes a session that of the console's user.
func ofConsole(s *v1alpha1.VDISession) { s.Spec.User = kindfleet.User }

// sees checks by the pixels of the frame alone that a condition holds in the desktop's terminal.
func sees(ctx context.Context, desktop *browser.Desktop, condition string) {
	GinkgoHelper()
	const green = "#00aa00"
	Expect(desktop.TypeIntoFrame(browser.Paint(condition, green))).To(Succeed())
	_, err := desktop.AwaitFramed(ctx, "a terminal in which "+condition, func(p browser.Picture) bool { return p.Most == green })
	Expect(err).NotTo(HaveOccurred())
}

// shown waits until the frame shows a desktop, and returns its picture.
func shown(ctx context.Context, desktop *browser.Desktop) browser.Picture {
	GinkgoHelper()
	ctx, cancel := context.WithTimeout(ctx, defaultTimeout)
	defer cancel()
	picture, err := desktop.AwaitFramed(ctx, "a desktop", func(p browser.Picture) bool { return !p.Blank() })
	Expect(err).NotTo(HaveOccurred())
	return picture
}

// visited opens the session's page in the console as its user, and returns the browser and the picture of the desktop.
func visited(ctx context.Context, s *v1alpha1.VDISession, screenshot string) (*browser.Desktop, browser.Picture) {
	GinkgoHelper()
	desktop, err := browser.Open(ctx, s.Status.URL, hosts(ctx))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(desktop.Close)
	Expect(desktop.Enter(kindfleet.Login, kindfleet.Login)).To(Succeed())
	picture := shown(ctx, desktop)
	Expect(desktop.Screenshot(filepath.Join(artifacts, screenshot+".png"))).To(Succeed())
	GinkgoWriter.Printf("%s at %s: %v\n", s.Name, s.Status.URL, picture)
	return desktop, picture
}

// hosts returns the nodes at which a browser reaches the console, and the members' gateways by wildcard host.
func hosts(ctx context.Context) map[string]string {
	resolve := map[string]string{}
	var nodes corev1.NodeList
	if err := fleet.Hub.Client.List(ctx, &nodes); err == nil {
		for i := range nodes.Items {
			for _, address := range nodes.Items[i].Status.Addresses {
				if address.Type == corev1.NodeInternalIP {
					resolve[kindfleet.ConsoleHost] = address.Address
				}
			}
		}
	}
	for _, member := range fleet.Members {
		var pods corev1.PodList
		bounded, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := member.Client.List(bounded, &pods, client.InNamespace("ingress"))
		cancel()
		if err != nil {
			continue // it is off
		}
		for i := range pods.Items {
			if host := pods.Items[i].Status.HostIP; host != "" {
				resolve["*."+member.Name+".desktops.test"] = host
			}
		}
	}
	return resolve
}

// gateway installs an ingress controller in the member, and waits until it is ready.
func gateway(ctx context.Context, member *kindfleet.Cluster) {
	GinkgoHelper()
	manifest, err := os.ReadFile(filepath.Join(root, "test", "ingress", "ingress.yaml"))
	Expect(err).NotTo(HaveOccurred())
	manifest = bytes.ReplaceAll(manifest, []byte("vdi-ingress:e2e"), []byte(os.Getenv(ingressImage)))
	apply := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl"), "--kubeconfig", fleet.Kubeconfig(), "--context", member.Name, "apply", "-f", "-")
	apply.Stdin = bytes.NewReader(manifest)
	out, err := apply.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	Eventually(ctx, func(ctx context.Context) error {
		var pods corev1.PodList
		if err := member.Client.List(ctx, &pods, client.InNamespace("ingress")); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return errors.New("no Pod yet")
		}
		for i := range pods.Items {
			if !isReady(&pods.Items[i]) {
				return fmt.Errorf("%s is not ready: %+v", pods.Items[i].Name, pods.Items[i].Status.ContainerStatuses)
			}
		}
		return nil
	}).Should(Succeed(), "the ingress controller of %s", member.Name)
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// desktopTemplate returns the template of deploy/samples with the image that is tested.
func desktopTemplate() *v1alpha1.VDITemplate {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "samples", "desktop.yaml"))
	Expect(err).NotTo(HaveOccurred())
	t := &v1alpha1.VDITemplate{}
	Expect(yaml.UnmarshalStrict(text, t)).To(Succeed())
	Expect(t.Name).To(Equal(withHome))
	t.Spec.Image = os.Getenv(desktopImage)
	return t
}

// inDesktop runs a command in the session's desktop through its node's containerd.
func inDesktop(ctx context.Context, s *v1alpha1.VDISession, command ...string) (string, error) {
	nodes, err := fleet.Member(s.Status.Placement.ClusterName).Nodes()
	if err != nil {
		return "", err
	}
	pod := podOf(ctx, s).Name
	for _, n := range nodes {
		node := &kindfleet.Node{Node: n}
		containers, err := node.Containers(ctx, "desktop")
		if err != nil {
			return "", err
		}
		for _, c := range containers {
			if c.Pod == pod && c.State == kindfleet.Running {
				return node.Exec(ctx, "crictl", append([]string{"exec", c.ID}, command...)...)
			}
		}
	}
	return "", fmt.Errorf("no container of %s runs", pod)
}
