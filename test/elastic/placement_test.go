package elastic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// policy creates a placement policy.
func policy(ctx context.Context, name string, spec v1alpha1.PlacementPolicySpec) {
	GinkgoHelper()
	Expect(hub.Create(ctx, &v1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec})).To(Succeed())
}

// templateOn creates a template whose sessions run on the nodes of a pool of its name, and request so
// many cores and this besides.
func templateOn(ctx context.Context, name, cores string, request corev1.ResourceList) {
	GinkgoHelper()
	t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
	t.Spec.Image, t.Spec.Port = "desktops.example.com/desktop:1", 6901
	t.Spec.NodeSelector = map[string]string{"pool": name}
	t.Spec.Resources.Default = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cores), corev1.ResourceMemory: resource.MustParse("256Mi")}
	maps.Copy(t.Spec.Resources.Default, request)
	Expect(hub.Create(ctx, t)).To(Succeed())
}

// slotsOf returns the slots of a template in a member, as its status shows them.
func slotsOf(member, template string) func(context.Context) string {
	return func(ctx context.Context) string {
		m := &v1alpha1.MemberCluster{}
		Expect(hub.Get(ctx, client.ObjectKey{Name: member}, m)).To(Succeed())
		for _, t := range m.Status.Templates {
			if t.Name == template {
				return strings.TrimSpace(fmt.Sprintf("%d free, %d growable %s", t.Slots, t.Growable, t.Reason))
			}
		}
		return "none"
	}
}

// moves returns how often each session was moved out of a member. One that its member refused, since another
// has used the free slot first, was not: it is placed again, mostly in the same member.
func moves(ctx context.Context) map[string]int {
	out := map[string]int{}
	for _, note := range notes(v1alpha1.EventMoved, "")(ctx) {
		name, _, _ := strings.Cut(note, ": ")
		out[name]++
	}
	return out
}

// explained runs kubectl vdi explain as the hub's administrator.
func explained(ctx context.Context, args ...string) *v1alpha1.PlacementReview {
	GinkgoHelper()
	root, err := harness.Root()
	Expect(err).NotTo(HaveOccurred())
	args = append([]string{"explain", "--kubeconfig", fleet.Hub.ControlPlane.Kubeconfig, "-n", namespace, "-o", "json"}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "kubectl-vdi"), args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	Expect(cmd.Run()).To(Succeed(), stderr.String())
	review := &v1alpha1.PlacementReview{}
	Expect(json.Unmarshal(stdout.Bytes(), review)).To(Succeed())
	return review
}
