package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// answerAll answers every review, as a hub does, until the context ends.
func answerAll(ctx context.Context, api client.WithWatch) error {
	w, err := api.Watch(ctx, &v1alpha1.PlacementReviewList{})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		review, is := event.Object.(*v1alpha1.PlacementReview)
		if !is || review.Status.ReviewTime != nil || !review.DeletionTimestamp.IsZero() {
			continue
		}
		now := metav1.Now()
		review.Status = v1alpha1.PlacementReviewStatus{ReviewTime: &now, Reason: v1alpha1.ReasonNoMembers, Message: "in " + review.Namespace, Waiting: review.Spec.Count}
		if err := client.IgnoreNotFound(api.Status().Update(ctx, review)); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// TestExplainingOnARealAPIServer covers RBAC, watches and the CRD's own rules.
func TestExplainingOnARealAPIServer(t *testing.T) {
	g := NewWithT(t)
	root, err := harness.Root()
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	start := func(name string, crds ...string) (*harness.ControlPlane, string) {
		plane, err := harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
			Name: name, APIOnly: true, CRDDirs: crds, Namespaces: map[string]map[string]string{"desktops": nil},
		})
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { g.Expect(plane.Stop()).To(Succeed()) })
		kubeconfig, err := plane.KubeconfigFor("operator", "system:masters")
		g.Expect(err).NotTo(HaveOccurred())
		return plane, kubeconfig
	}
	hub, kubeconfig := start("hub", filepath.Join(root, "deploy/charts/vdi-hub/files/crds"))
	explain := func(args ...string) (string, error) {
		return run(&cluster{}, "", append([]string{"explain", "--kubeconfig=" + kubeconfig}, args...)...)
	}

	_, err = explain("ann", "-n=desktops", "--timeout=300ms")
	g.Expect(err).To(MatchError(ContainSubstring("has not answered within 300ms")))

	scheme, err := newScheme()
	g.Expect(err).NotTo(HaveOccurred())
	api, err := client.NewWithWatch(hub.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	answering, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- answerAll(answering, api) }()
	t.Cleanup(func() {
		stop()
		g.Expect(<-done).To(Succeed())
	})
	g.Expect(explain("ann", "-n=desktops")).To(ContainSubstring("NoMembers: in desktops"))
	g.Expect(explain("--template=browser", "--user=ann", "--count=3", "--resources=cpu=500m", "-n=desktops")).To(HavePrefix("Of 3 sessions like this, 0 would be placed"))
	_, err = explain("--template=Browser", "--user=ann", "-n=desktops")
	g.Expect(err).To(MatchError(ContainSubstring("must be the name of a VDITemplate")), "the API server's validation")
	_, err = explain("ann", "-n=nowhere")
	g.Expect(err).To(MatchError(ContainSubstring("--namespace")))
	list := &v1alpha1.PlacementReviewList{}
	g.Expect(api.List(ctx, list)).To(Succeed())
	g.Expect(list.Items).To(BeEmpty())

	// The context's namespace is the default.
	config, err := clientcmd.LoadFromFile(kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	config.Contexts[config.CurrentContext].Namespace = "desktops"
	other := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(clientcmd.WriteToFile(*config, other)).To(Succeed())
	g.Expect(run(&cluster{}, "", "explain", "ann", "--kubeconfig="+other)).To(ContainSubstring("in desktops"))

	if kubeconfig, err = hub.KubeconfigFor("ann"); err != nil {
		t.Fatal(err)
	}
	_, err = explain("ann", "-n=desktops")
	g.Expect(err).To(MatchError(ContainSubstring("you need permission to create placementreviews.vdi.kasm.io in namespace desktops")))

	_, kubeconfig = start("member")
	_, err = explain("ann", "-n=desktops")
	g.Expect(err).To(MatchError(ContainSubstring("with the CRDs of `make install`")))
}
