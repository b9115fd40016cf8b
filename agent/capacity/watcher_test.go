package capacity_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/agent/capacity"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

// fixture is a watcher of a real control plane with two nodes of 4 cores.
type fixture struct {
	*harness.ControlPlane
	client  client.Client
	watcher *capacity.Watcher
	// notified is the number of the report that OnChange was last called for.
	notified atomic.Uint64
}

func start(t *testing.T) *fixture {
	t.Helper()
	g := NewWithT(t)
	root, err := harness.Root()
	g.Expect(err).NotTo(HaveOccurred())
	allocatable := kwok.DefaultAllocatable()
	allocatable[corev1.ResourceCPU] = resource.MustParse("4")
	cp, err := harness.StartControlPlane(t.Context(), harness.ControlPlaneOptions{
		CRDDirs:    []string{filepath.Join(root, "deploy/charts/vdi-agent/files/crds")},
		Nodes:      []kwok.NodeGroup{{Count: 2, Region: "eu", Zone: "eu-a", Allocatable: allocatable}},
		Namespaces: map[string]map[string]string{"desktops": {v1alpha1.LabelAdmitSessions: "true"}, "others": nil},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(cp.Stop()).To(Succeed()) })

	f := &fixture{ControlPlane: cp}
	scheme := runtime.NewScheme()
	g.Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	f.client, err = client.New(cp.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	assignments, err := cache.New(cp.Config, cache.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	f.watcher = capacity.NewWatcher(capacity.Options{
		Client: cp.Client, Assignments: assignments, Debounce: 20 * time.Millisecond,
		OnChange: func() { f.notified.Store(f.watcher.Report().GetSequence()) },
	})
	f.run(t, assignments.Start, f.watcher.Start)
	return f
}

// run starts functions that run until the test ends, which waits for them.
func (f *fixture) run(t *testing.T, all ...func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	group, ctx := errgroup.WithContext(ctx)
	for _, run := range all {
		group.Go(func() error { return run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// desk returns what the watcher reports of the template of 1 core and 1 GiB.
func (f *fixture) desk() *fleetv1.TemplateCapacity {
	for _, t := range f.watcher.Report().GetTemplates() {
		if t.GetName() == "desk" {
			return t
		}
	}
	return nil
}

func (f *fixture) slots() int32 { return f.desk().GetSlots() }

func (f *fixture) assign(ctx context.Context, g *WithT, name string, change ...func(*v1alpha1.SessionAssignment)) *v1alpha1.SessionAssignment {
	a := &v1alpha1.SessionAssignment{ObjectMeta: metav1.ObjectMeta{Namespace: "desktops", Name: name}}
	a.Spec = v1alpha1.SessionAssignmentSpec{
		Session: v1alpha1.SessionReference{Namespace: "desktops", Name: name, UID: types.UID("session-" + name)},
		Epoch:   1, User: "ada", Template: "desk", TemplateRevision: "r1", RunState: v1alpha1.ModeRunning, Host: name + ".example.com",
		Desktop: v1alpha1.Desktop{Image: "i", Port: 80, Resources: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}},
	}
	for _, c := range change {
		c(a)
	}
	g.Expect(f.client.Create(ctx, a)).To(Succeed())
	return a
}

func desktop(namespace, name string, cpu string, session types.UID) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	if session != "" {
		p.Labels = map[string]string{v1alpha1.LabelSessionUID: string(session)}
	}
	p.Spec.Containers = []corev1.Container{{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	return p
}

func TestWatcherOnARealAPIServer(t *testing.T) {
	f := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(20 * time.Second)
	g.SetDefaultEventuallyPollingInterval(10 * time.Millisecond)
	pods := f.Client.CoreV1().Pods("others")
	resources := map[string]string{"cpu": "1", "memory": "1Gi"}
	f.watcher.SetTemplates(&fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{
		{Name: "desk", Revision: "r1", Resources: resources, Home: true},
		{Name: "fast", Revision: "r1", Resources: resources, Home: true, StorageClassName: "fast"},
	}})

	g.Eventually(f.slots).Should(BeEquivalentTo(8), "two empty nodes of 4 cores")
	report := f.watcher.Report()
	g.Expect(report.GetNodes()).To(BeEquivalentTo(2))
	g.Expect(report.GetAdmittedNamespaces()).To(Equal([]string{"desktops"}))
	g.Expect(report.GetTemplates()[1].GetReason()).To(Equal(v1alpha1.UnavailableStorageClass))

	// An assignment counts once it is stored, from the returned report on.
	a := f.assign(ctx, g, "one")
	number := f.watcher.Stored(a)
	g.Eventually(func() uint64 { return f.watcher.Report().GetSequence() }).Should(BeNumerically(">=", number))
	g.Expect(f.slots()).To(BeEquivalentTo(7))
	g.Expect(f.watcher.Report().GetAssignments()).To(BeEquivalentTo(1))

	// Another Stored changes nothing, and the returned report still follows.
	number = f.watcher.Stored(a)
	g.Eventually(func() uint64 { return f.watcher.Report().GetSequence() }).Should(BeNumerically(">=", number))
	g.Expect(f.slots()).To(BeEquivalentTo(7))

	// Its Pod counts instead of it, and other owners' Pods count too.
	_, err := f.Client.CoreV1().Pods("desktops").Create(ctx, desktop("desktops", "one", "1", a.Spec.Session.UID), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = pods.Create(ctx, desktop("others", "other", "3", ""), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(f.slots).Should(BeEquivalentTo(4), "8 less one and three")

	// The capacity of a deleted Pod is free again.
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	g.Expect(pods.Delete(ctx, "other", now)).To(Succeed())
	g.Expect(f.client.Delete(ctx, a)).To(Succeed())
	g.Eventually(func() int32 { return f.watcher.Report().GetAssignments() }).Should(BeZero())
	g.Eventually(f.slots).Should(BeEquivalentTo(7), "the Pod is still there")
	g.Expect(f.Client.CoreV1().Pods("desktops").Delete(ctx, "one", now)).To(Succeed())
	g.Eventually(f.slots).Should(BeEquivalentTo(8))

	// Namespaces are admitted and removed, and nodes cordoned.
	label := func(value string) []byte {
		return fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, v1alpha1.LabelAdmitSessions, value)
	}
	for _, value := range []string{"true", "false"} {
		_, err = f.Client.CoreV1().Namespaces().Patch(ctx, "others", types.MergePatchType, label(value), metav1.PatchOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		want := []string{"desktops"}
		if value == "true" {
			want = append(want, "others")
		}
		g.Eventually(func() []string { return f.watcher.Report().GetAdmittedNamespaces() }).Should(Equal(want))
	}
	nodes, err := f.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	_, err = f.Client.CoreV1().Nodes().Patch(ctx, nodes.Items[0].Name, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(f.slots).Should(BeEquivalentTo(4))
	g.Expect(f.watcher.Report().GetNodes()).To(BeEquivalentTo(1))
	node := f.watcher.Node(nodes.Items[0].Name)
	g.Expect(node.Ready && node.Known).To(BeTrue(), "a cordoned node is Ready nevertheless")

	f.testAvailabilityChanges(ctx, g)

	// The same capacity is not reported twice.
	sequence := f.watcher.Report().GetSequence()
	g.Eventually(f.notified.Load).Should(Equal(sequence))
	g.Consistently(func() uint64 { return f.watcher.Report().GetSequence() }).WithTimeout(500 * time.Millisecond).Should(Equal(sequence))
}

// testAvailabilityChanges creates and deletes what template "fast" requires: its availability is
// reported as soon as it changes.
func (f *fixture) testAvailabilityChanges(ctx context.Context, g *WithT) {
	f.watcher.SetTemplates(&fleetv1.TemplateSet{Templates: []*fleetv1.TemplateRequirements{{
		Name: "desk", Revision: "r1", Resources: map[string]string{"cpu": "1"},
		Home: true, StorageClassName: "fast", IngressClassName: "edge", RuntimeClassName: "sandbox", PriorityClassName: "desktops",
	}}})
	storage, ingress, sandbox := f.Client.StorageV1().StorageClasses(), f.Client.NetworkingV1().IngressClasses(), f.Client.NodeV1().RuntimeClasses()
	var none metav1.CreateOptions
	reason := func() string { return f.desk().GetReason() }
	g.Eventually(reason).Should(Equal(v1alpha1.UnavailableStorageClass))
	_, err := storage.Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "example.com/disk"}, none)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(reason).Should(Equal(v1alpha1.UnavailableIngressClass))
	_, err = ingress.Create(ctx, &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Spec: networkingv1.IngressClassSpec{Controller: "example.com/edge"}}, none)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(reason).Should(Equal(v1alpha1.UnavailableRuntimeClass))
	_, err = sandbox.Create(ctx, &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "sandbox"}, Handler: "sandbox"}, none)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(reason).Should(Equal(v1alpha1.UnavailablePriorityClass))
	_, err = f.Client.SchedulingV1().PriorityClasses().Create(ctx, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "desktops"}}, none)
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(func() bool { return f.desk().GetAvailable() }).Should(BeTrue())

	g.Expect(storage.Delete(ctx, "fast", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(reason).Should(Equal(v1alpha1.UnavailableStorageClass))
	g.Expect(f.desk().GetBuckets()).To(BeEmpty(), "nothing more is placed there")
}
