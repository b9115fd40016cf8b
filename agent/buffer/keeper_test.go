package buffer

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/capacity"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
)

// textOf returns a state as held+pending, reason and message.
func textOf(s *fleetv1.BufferStatus) string {
	return fmt.Sprintf("%d+%d %s: %s", s.GetHeld(), s.GetPending(), s.GetReason(), s.GetMessage())
}

// ordered is what a Keeper is to keep, and what it reports.
type ordered struct {
	mu      sync.Mutex
	buffers capacity.Buffers
	states  []*fleetv1.BufferStatus
	changes chan struct{}
}

func (o *ordered) Buffers() capacity.Buffers {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffers
}

func (o *ordered) Changes() <-chan struct{} { return o.changes }

func (o *ordered) SetStates(states []*fleetv1.BufferStatus) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.states = states
}

// set replaces what is to be kept.
func (o *ordered) set(b capacity.Buffers) {
	o.mu.Lock()
	o.buffers = b
	o.mu.Unlock()
	o.changes <- struct{}{}
}

// state returns what the Keeper reports, or how many states if that is not one.
func (o *ordered) state() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.states) != 1 {
		return fmt.Sprint(len(o.states))
	}
	return fmt.Sprintf("%d+%d %s", o.states[0].GetHeld(), o.states[0].GetPending(), o.states[0].GetReason())
}

// start runs a Keeper until the test ends.
func start(t *testing.T, client kubernetes.Interface, image string) *ordered {
	t.Helper()
	o := &ordered{changes: make(chan struct{})}
	k := NewKeeper(Options{Client: client, Capacity: o, Namespace: harness.SystemNamespace, Image: image, Retry: 50 * time.Millisecond})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return o
}

func TestNothingIsRequestedWithoutBuffers(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	o := start(t, client, "vdi-agent:1")
	o.set(capacity.Buffers{Pods: 3})
	o.set(capacity.Buffers{Known: true, Class: class})
	g.Consistently(func() []clienttesting.Action { return client.Actions() }, 300*time.Millisecond).Should(BeEmpty())

	off := fake.NewClientset()
	o = start(t, off, "")
	o.set(capacity.Buffers{Known: true, Class: class, All: []capacity.Buffer{desk(3, 3)}})
	g.Eventually(o.state).Should(Equal("0+0 BuffersNotEnabled"))
	g.Expect(off.Actions()).To(BeEmpty(), "an agent that is not to keep buffers")
}

// Pods of an earlier buffer show that its Deployment must be deleted.
func TestABufferThatEndedWhileTheAgentWasAwayIsRemoved(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(rendered(t, desk(3, 3)), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: harness.SystemNamespace, Name: "balloon", Labels: map[string]string{v1alpha1.LabelBuffer: "balloon"},
	}})
	o := start(t, client, "vdi-agent:1")
	o.set(capacity.Buffers{Known: true, Class: class, Pods: 3})
	names := func() (out []string) {
		list, err := client.AppsV1().Deployments("").List(t.Context(), metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		for i := range list.Items {
			out = append(out, list.Items[i].Name)
		}
		return out
	}
	g.Eventually(names).Should(Equal([]string{"balloon"}), "the platform team's Deployment stays")
}

func TestWhatCantBeReadOrWrittenIsReportedAndTriedAgain(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset()
	var mu sync.Mutex
	refuse := map[string]error{
		"list":   apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "", nil),
		"create": apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "x", fmt.Errorf("exceeded quota")),
	}
	client.PrependReactor("*", "deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		err := refuse[a.GetVerb()]
		return err != nil, nil, err
	})
	permit := func(verb string) {
		mu.Lock()
		defer mu.Unlock()
		delete(refuse, verb)
	}
	o := start(t, client, "vdi-agent:1")
	message := func() string {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.states) == 0 {
			return ""
		}
		return o.states[0].GetReason() + ": " + o.states[0].GetMessage()
	}
	o.set(capacity.Buffers{Known: true, Class: class, All: []capacity.Buffer{desk(3, 3)}})
	g.Eventually(message).Should(Equal("BufferFailed: the agent may not list Deployments in namespace vdi-system: set buffers.enabled of its chart"))
	permit("list")
	g.Eventually(message, 10*time.Second).Should(And(HavePrefix("BufferFailed: "), ContainSubstring("exceeded quota (raise the quota")))
	permit("create")
	g.Eventually(o.state, 10*time.Second).Should(Equal("0+3 "))
}

// keeping is a Keeper of a real control plane with two nodes of 4 cores.
type keeping struct {
	*WithT
	*ordered
	*harness.ControlPlane
	class *schedulingv1.PriorityClass
}

func keepOnAControlPlane(t *testing.T) *keeping {
	t.Helper()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(time.Minute)
	allocatable := kwok.DefaultAllocatable()
	allocatable[corev1.ResourceCPU] = resource.MustParse("4")
	cp, err := harness.StartControlPlane(t.Context(), harness.ControlPlaneOptions{
		Nodes:      []kwok.NodeGroup{{Count: 2, Region: "eu", Zone: "eu-a", Allocatable: allocatable}},
		Namespaces: map[string]map[string]string{harness.SystemNamespace: {v1alpha1.LabelPodSecurity: v1alpha1.PodSecurityRestricted}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(cp.Stop()).To(Succeed()) })
	k := &keeping{WithT: g, ControlPlane: cp}
	k.class = k.createClass(t)
	k.ordered = start(t, cp.Client, "vdi-agent:1")
	return k
}

func (k *keeping) createClass(t *testing.T) *schedulingv1.PriorityClass {
	t.Helper()
	c, err := k.Client.SchedulingV1().PriorityClasses().Create(t.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.BufferPriorityClass}, Value: -10, PreemptionPolicy: ptr.To(corev1.PreemptNever),
	}, metav1.CreateOptions{})
	k.Expect(err).NotTo(HaveOccurred())
	return c
}

// keep sets the only buffer.
func (k *keeping) keep(all ...capacity.Buffer) {
	k.set(capacity.Buffers{Known: true, All: all, Class: &capacity.BufferClass{UID: k.class.UID, Value: k.class.Value}})
}

// pods counts the Pods in the agent's namespace that run.
func (k *keeping) pods(t *testing.T) func() int {
	return func() (running int) {
		list, err := k.Client.CoreV1().Pods(harness.SystemNamespace).List(t.Context(), metav1.ListOptions{})
		k.Expect(err).NotTo(HaveOccurred())
		for i := range list.Items {
			if list.Items[i].Status.Phase == corev1.PodRunning {
				running++
			}
		}
		return running
	}
}

func (k *keeping) deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d, err := k.Client.AppsV1().Deployments(harness.SystemNamespace).Get(t.Context(), "vdi-buffer-desk", metav1.GetOptions{})
	k.Expect(err).NotTo(HaveOccurred())
	return d
}

func TestABufferOnARealControlPlane(t *testing.T) {
	k := keepOnAControlPlane(t)
	k.keep(desk(8, 8))
	k.Eventually(k.state).Should(Equal("8+0 "), "its Pods meet Pod Security restricted, and fill both nodes")
	generation := k.deployment(t).Generation
	k.keep(desk(8, 8))
	k.Consistently(func() int64 { return k.deployment(t).Generation }, time.Second).Should(Equal(generation), "nothing is written if nothing changes")

	d := k.deployment(t)
	d.Spec.Replicas, d.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int32](3), ptr.To[int64](30)
	_, err := k.Client.AppsV1().Deployments(d.Namespace).Update(t.Context(), d, metav1.UpdateOptions{})
	k.Expect(err).NotTo(HaveOccurred())
	k.Eventually(func() string {
		d := k.deployment(t)
		return fmt.Sprint(*d.Spec.Replicas, *d.Spec.Template.Spec.TerminationGracePeriodSeconds)
	}).Should(Equal("8 0"), "edits are reverted")
	k.Eventually(k.state).Should(Equal("8+0 "))

	// A desktop preempts what it needs, and no more.
	desktop := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "desktop"}}
	desktop.Spec.Containers = []corev1.Container{{Name: "desktop", Image: "desk:1", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}}}
	_, err = k.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), desktop, metav1.CreateOptions{})
	k.Expect(err).NotTo(HaveOccurred())
	k.Eventually(func() corev1.PodPhase {
		p, err := k.Client.CoreV1().Pods(metav1.NamespaceDefault).Get(t.Context(), "desktop", metav1.GetOptions{})
		k.Expect(err).NotTo(HaveOccurred())
		return p.Status.Phase
	}).Should(Equal(corev1.PodRunning))
	k.Eventually(k.state).Should(Equal("6+2 "), "their replacements wait for a node")
	k.keep(desk(8, 6))
	k.Eventually(k.state).Should(Equal("6+0 NoBufferCapacity"))

	k.keep(desk(2, 8))
	k.Eventually(k.state).Should(Equal("2+0 "))
	k.keep(desk(2, 8, func(r *fleetv1.TemplateRequirements) { r.Resources["cpu"] = "500m" }))
	k.Eventually(func() string {
		return k.deployment(t).Spec.Template.Spec.Containers[0].Resources.Requests.Cpu().String()
	}).Should(Equal("500m"), "another revision of the template")
	unread := desk(5, 0)
	unread.Requirements = nil
	k.keep(unread)
	k.Consistently(func() int32 { return *k.deployment(t).Spec.Replicas }, time.Second).Should(BeEquivalentTo(2), "it stays while its template is not known")
	k.Eventually(k.pods(t)).Should(Equal(2))

	// Without the PriorityClass, Kubernetes deletes the Deployment.
	old := k.class
	k.Expect(k.Client.SchedulingV1().PriorityClasses().Delete(t.Context(), old.Name, metav1.DeleteOptions{})).To(Succeed())
	k.set(capacity.Buffers{Known: true, All: []capacity.Buffer{desk(2, 8)}})
	k.Eventually(k.pods(t)).Should(BeZero())
	k.Eventually(k.state).Should(Equal("0+0 NoBufferPriorityClass"))
	k.class = k.createClass(t)
	k.keep(desk(2, 8))
	k.Eventually(k.state).Should(Equal("2+0 "))

	k.keep()
	k.Eventually(k.pods(t)).Should(BeZero())
	k.Eventually(k.state).Should(Equal("0"))
	taken := rendered(t, desk(1, 1))
	taken.Labels, taken.OwnerReferences, taken.Spec.Replicas = nil, nil, ptr.To[int32](0)
	_, err = k.Client.AppsV1().Deployments(harness.SystemNamespace).Create(t.Context(), taken, metav1.CreateOptions{})
	k.Expect(err).NotTo(HaveOccurred())
	k.keep(desk(2, 8))
	k.Eventually(k.state).Should(Equal("0+0 BufferFailed"), "its name is taken")
}
