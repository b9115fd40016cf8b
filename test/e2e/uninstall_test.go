package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/test/e2e/kindfleet"
)

var _ = Describe("An uninstallation", Serial, func() {
	It("by the commands of docs/installation.md ends all sessions and leaves nothing behind", func(ctx SpecContext) {
		for _, member := range fleet.Members {
			running(ctx, newSession(ctx, "until-"+member.Name, sampleHome, inRegion(member.Name)), member.Name)
		}
		DeferCleanup(func(ctx SpecContext) {
			installed := time.Now()
			// A namespace that is being deleted can't be created again.
			for _, c := range everyCluster() {
				Eventually(ctx, system).WithArguments(c).ShouldNot(Equal(corev1.NamespaceTerminating), "in cluster %s", c.Name)
			}
			Expect(fleet.Install(ctx)).To(Succeed())
			reportTime("installed again", time.Since(installed))
			Expect(ensure(ctx, sampleTemplate())).To(Succeed())
			Expect(ensure(ctx, homeTemplate())).To(Succeed())
		})
		began := time.Now()
		uninstall(ctx, fleet.Hub, "hub")
		for _, member := range fleet.Members {
			uninstall(ctx, member, "member", "--homes")
		}
		reportTime("uninstalled, sessions and homes included", time.Since(began))
		for _, c := range everyCluster() {
			Eventually(ctx, system).WithArguments(c).Should(BeEmpty(), "in cluster %s", c.Name)
			Eventually(ctx, remains).WithArguments(c).Should(BeEmpty(), "in cluster %s", c.Name)
		}
	})
})

func everyCluster() []*kindfleet.Cluster {
	return append([]*kindfleet.Cluster{fleet.Hub}, fleet.Members...)
}

// system returns the phase of a cluster's namespace of hub and agents, or "" if there is none.
func system(ctx context.Context, c *kindfleet.Cluster) (corev1.NamespacePhase, error) {
	var namespace corev1.Namespace
	err := c.Client.Get(ctx, client.ObjectKey{Name: kindfleet.SystemNamespace}, &namespace)
	return namespace.Status.Phase, client.IgnoreNotFound(err)
}

// uninstall removes hub or agent as docs/installation.md, "Uninstall", describes.
func uninstall(ctx context.Context, c *kindfleet.Cluster, args ...string) {
	GinkgoHelper()
	script := exec.CommandContext(ctx, filepath.Join(root, "deploy", "uninstall.sh"), append(args, "--kubeconfig", fleet.Kubeconfig(), "--context", c.Name)...)
	bin, err := filepath.Abs(filepath.Join(root, "bin"))
	Expect(err).NotTo(HaveOccurred())
	script.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	out, err := script.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", out)
	GinkgoWriter.Printf("%s\n", out)
}

// remains returns the objects of any kind in a cluster that belong to vdi-fleet by kind, label or
// name, and all PersistentVolumeClaims.
func remains(ctx context.Context, c *kindfleet.Cluster) ([]string, error) {
	kinds, err := kubectl(ctx, c, "api-resources", "--verbs=list", "-o", "name")
	if err != nil {
		return nil, err
	}
	all := strings.Join(strings.Fields(kinds), ",")
	labeled, err := kubectl(ctx, c, "get", all, "-A", "-o", "name", "-l", "app.kubernetes.io/part-of=vdi-fleet")
	if err != nil {
		return nil, err
	}
	managed, err := kubectl(ctx, c, "get", all, "-A", "-o", "name", "-l", "app.kubernetes.io/managed-by=vdi-fleet")
	if err != nil {
		return nil, err
	}
	named, err := kubectl(ctx, c, "get", all, "-A", "-o", "name")
	if err != nil {
		return nil, err
	}
	left := append(strings.Fields(labeled), strings.Fields(managed)...)
	for _, object := range strings.Fields(named) {
		kind, name, _ := strings.Cut(object, "/")
		own := strings.HasPrefix(name, "vdi-") && !strings.HasPrefix(name, c.ControlPlane()) && !strings.Contains(name, "-worker")
		past := kind == "event" || kind == "event.events.k8s.io"
		if !past && (own || strings.Contains(object, "vdi.kasm.io") || kind == "persistentvolumeclaim") {
			left = append(left, object)
		}
	}
	slices.Sort(left)
	return slices.Compact(left), nil
}

func kubectl(ctx context.Context, c *kindfleet.Cluster, args ...string) (string, error) {
	args = append(args, "--kubeconfig", fleet.Kubeconfig(), "--context", c.Name)
	out, err := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl"), args...).Output()
	return string(out), err
}
