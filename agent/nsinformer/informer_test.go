package nsinformer_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/vdi-fleet/vdi-fleet/agent/nsinformer"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// The informer runs with the agent's roles: a request for Secrets of the whole cluster would
// be forbidden.
func TestSecretsAreSeenWhereSessionsAreAdmitted(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	root, err := harness.Root()
	g.Expect(err).NotTo(HaveOccurred())
	plane, err := harness.StartControlPlane(t.Context(), harness.ControlPlaneOptions{
		APIOnly: true, CRDDirs: []string{filepath.Join(root, "deploy/charts/vdi-agent/files/crds")},
		Namespaces: map[string]map[string]string{
			"open": nil, "later": nil, "private": nil, "vdi-system": nil, "unbound": {v1alpha1.LabelAdmitSessions: "true"},
		},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(plane.Stop()).To(Succeed()) })
	config, err := plane.AuthorizeAgent(t.Context(), "open")
	g.Expect(err).NotTo(HaveOccurred())
	keep := func(namespace, name string) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}}}
		_, err := plane.Client.CoreV1().Secrets(namespace).Create(t.Context(), secret, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	for _, namespace := range []string{"open", "later", "private", "unbound"} {
		keep(namespace, "first")
	}

	informer := secrets(t, config)
	seen := func() []string { keys := informer.GetIndexer().ListKeys(); slices.Sort(keys); return keys }
	g.Eventually(seen).Should(Equal([]string{"open/first"}))
	keep("open", "second")
	g.Eventually(seen).Should(Equal([]string{"open/first", "open/second"}), "as they come")
	g.Expect(plane.AdmitSessions(t.Context(), "later")).To(Succeed())
	g.Eventually(seen).Should(Equal([]string{"later/first", "open/first", "open/second"}), "those of a namespace that is admitted later")
	g.Expect(plane.AdmitSessions(t.Context(), "unbound")).To(Succeed())
	g.Eventually(seen).Should(Equal([]string{"later/first", "open/first", "open/second", "unbound/first"}), "once the role is bound")
	g.Expect(plane.Client.CoreV1().Secrets("later").Delete(t.Context(), "first", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(seen).Should(Equal([]string{"open/first", "open/second", "unbound/first"}), "as they go")
	g.Expect(plane.EnsureNamespace(t.Context(), "unbound", nil)).To(Succeed())
	g.Eventually(seen).Should(Equal([]string{"open/first", "open/second"}), "until it is admitted no more")
}

// secrets runs an informer of Secrets until the test ends.
func secrets(t *testing.T, config *rest.Config) toolscache.SharedIndexInformer {
	t.Helper()
	g := NewWithT(t)
	scheme := runtime.NewScheme()
	g.Expect(clientgoscheme.AddToScheme(scheme)).To(Succeed())
	client, err := rest.HTTPClientFor(config)
	g.Expect(err).NotTo(HaveOccurred())
	mapper, err := apiutil.NewDynamicRESTMapper(config, client)
	g.Expect(err).NotTo(HaveOccurred())
	informer := nsinformer.Cluster{Config: config, HTTPClient: client, Scheme: scheme, Mapper: mapper}.
		NewInformer(nil, &corev1.Secret{}, 0, toolscache.Indexers{})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); informer.RunWithContext(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	return informer
}
