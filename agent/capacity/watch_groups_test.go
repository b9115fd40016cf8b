package capacity

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/vdi-fleet/vdi-fleet/agent/nodegroup"
	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// groupFixture is a watcher of API servers in memory, whose loop runs without the informers of the member.
type groupFixture struct {
	*Watcher
	client  *fake.Clientset
	objects *dynamicfake.FakeDynamicClient
	// refuse is the answer to requests for objects of Karpenter.
	refuse atomic.Pointer[apierrors.StatusError]
}

func watchGroups(t *testing.T, objects ...runtime.Object) *groupFixture {
	t.Helper()
	f := &groupFixture{client: fake.NewClientset(), objects: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{nodePools: "NodePoolList", nodeClaims: "NodeClaimList"}, objects...)}
	f.objects.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if err := f.refuse.Load(); err != nil {
			return true, nil, err
		}
		return false, nil, nil
	})
	f.Watcher = NewWatcher(Options{
		Client: f.client, Objects: f.objects, OnChange: func() {},
		Debounce: time.Millisecond, Recheck: 20 * time.Millisecond, GroupInterval: 10 * time.Millisecond,
	})
	f.model.SetIngressClasses(Classes{Default: true})
	f.synced = true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { f.loop(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return f
}

// declare sets the node groups as the hub sends them.
func (f *groupFixture) declare(all ...nodegroup.Spec) {
	set := &fleetv1.TemplateSet{Templates: []*requirements{desk()}}
	for _, s := range all {
		g := &fleetv1.NodeGroup{
			Name: s.Name, KarpenterNodePool: s.KarpenterNodePool, ClusterAutoscalerGroup: s.ClusterAutoscalerGroup, MaxNodes: s.MaxNodes, Labels: s.Labels,
		}
		if s.Allocatable != nil {
			g.Allocatable = quantities(Resources(s.Allocatable))
		}
		set.NodeGroups = append(set.NodeGroups, g)
	}
	f.SetTemplates(set)
}

// state returns the state of the only group, and the slots on growable nodes.
func (f *groupFixture) state() string {
	r := f.Report()
	if len(r.GetNodeGroups()) != 1 {
		return "none"
	}
	g := r.GetNodeGroups()[0]
	return strings.TrimSpace(g.GetState() + " " + g.GetMessage())
}

func (f *groupFixture) growable() int32 {
	for _, t := range f.Report().GetTemplates() {
		return t.GetGrowableSlots()
	}
	return 0
}

// watched returns what was requested of both API servers, such as "list nodepools".
func (f *groupFixture) watched() []string {
	var out []string
	for _, a := range append(f.client.Actions(), f.objects.Actions()...) {
		out = append(out, a.GetVerb()+" "+a.GetResource().Resource)
	}
	return out
}

func karpenterObject(kind, name string, content map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion("karpenter.sh/v1")
	u.SetKind(kind)
	u.SetName(name)
	return u
}

func general(cpu string) *unstructured.Unstructured {
	return karpenterObject("NodePool", "general", map[string]any{
		"spec":   map[string]any{"limits": map[string]any{"cpu": cpu}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
	})
}

func launched(name string) *unstructured.Unstructured {
	amounts := map[string]any{"cpu": "4", "memory": "32Gi", "pods": "110"}
	u := karpenterObject("NodeClaim", name, map[string]any{"status": map[string]any{
		"capacity": amounts, "allocatable": amounts, "conditions": []any{map[string]any{"type": "Launched", "status": "True"}},
	}})
	u.SetLabels(map[string]string{nodegroup.LabelNodePool: "general"})
	u.SetCreationTimestamp(metav1.Now())
	return u
}

func TestKarpenterIsWatched(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(10 * time.Second)
	f := watchGroups(t)
	f.refuse.Store(apierrors.NewNotFound(schema.GroupResource{}, ""))
	f.declare()
	g.Consistently(f.watched, 200*time.Millisecond).Should(BeEmpty(), "nothing is watched without node groups")

	f.declare(desktops(ofKarpenter, func(s *nodegroup.Spec) { s.MaxNodes = nil }))
	g.Eventually(f.state).Should(Equal("Unknown the member does not serve nodepools: is Karpenter installed?"))
	f.refuse.Store(apierrors.NewForbidden(schema.GroupResource{}, "", nil))
	g.Eventually(f.state).Should(Equal("Unknown the agent may not list and watch nodepools: set nodeGroups.enabled of the agent's chart"))
	f.refuse.Store(nil)
	g.Eventually(f.state).Should(Equal(`Unknown the member has no NodePool "general"`), "it is tried again")

	pools, claims := f.objects.Resource(nodePools), f.objects.Resource(nodeClaims)
	_, err := pools.Create(t.Context(), general("12"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(f.growable).Should(BeEquivalentTo(1), "one session tries it")
	_, err = claims.Create(t.Context(), launched("c"), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(f.growable).Should(BeEquivalentTo(8), "two more nodes")
	daemon := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "d", Namespace: "x", UID: "d"}}
	daemon.Spec.Template.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}}}
	daemon, err = f.client.AppsV1().DaemonSets("x").Create(t.Context(), daemon, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(f.growable).Should(BeEquivalentTo(6), "less a DaemonSet")
	sequence := f.Report().GetSequence()
	daemon.Status.NumberReady = 7
	_, err = f.client.AppsV1().DaemonSets("x").UpdateStatus(t.Context(), daemon, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Consistently(func() uint64 { return f.Report().GetSequence() }, 200*time.Millisecond).Should(Equal(sequence), "nothing has changed")
	g.Expect(claims.Delete(t.Context(), "c", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(f.growable).Should(BeEquivalentTo(1))

	f.declare()
	g.Eventually(f.state).Should(Equal("none"))
	before := len(f.watched())
	_, err = pools.Update(t.Context(), general("16"), metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Consistently(func() int { return len(f.watched()) }, 200*time.Millisecond).Should(Equal(before+1), "only the update: nothing is watched any more")
	f.declare(desktops(ofKarpenter))
	g.Eventually(f.growable).Should(BeEquivalentTo(1), "what exists is read again")
	f.update(func(m *Model) {
		m.SetNodeGroups(nil)
		m.SetNodeGroups([]nodegroup.Spec{desktops(ofKarpenter)})
	})
	g.Consistently(f.growable, 20*time.Millisecond).Should(BeNumerically("<=", 1))
	g.Eventually(f.growable).Should(BeEquivalentTo(1), "and if they are removed for a moment")
}

// A group whose sources are not read yet is not one whose source is missing. The others are reported meanwhile.
func TestAGroupIsReportedOnceItsSourcesAreRead(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(10 * time.Second)
	f := watchGroups(t, general("12"))
	read := make(chan struct{})
	unblock := sync.OnceFunc(func() { close(read) })
	t.Cleanup(unblock)
	f.objects.PrependReactor("list", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-read
		return false, nil, nil
	})
	other := desktops(func(s *nodegroup.Spec) { s.Name, s.Labels = "other", map[string]string{"pool": "other"} })
	states := func() (out []string) {
		for _, n := range f.Report().GetNodeGroups() {
			out = append(out, n.GetName()+" "+n.GetState())
		}
		return out
	}
	f.declare(desktops(ofKarpenter), other)
	g.Eventually(states).Should(Equal([]string{"other Available"}))
	g.Consistently(states, 200*time.Millisecond).Should(Equal([]string{"other Available"}))
	unblock()
	g.Eventually(states).Should(Equal([]string{"desktops Unknown", "other Available"}), "one session tries it")
	g.Expect(f.Report().GetNodeGroups()[0].GetReason()).To(Equal(nodegroup.ReasonShapeUnknown))

	f.declare(other)
	g.Eventually(states).Should(Equal([]string{"other Available"}))
	g.Eventually(func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.model.growth.read[karpenter]
	}).Should(BeFalse(), "what is not watched any more is not read")
}

// The hub sends all templates to an agent with node groups whenever it connects.
func TestTheSameTemplatesAreNoChange(t *testing.T) {
	w := NewWatcher(Options{})
	set := func(most int32) bool {
		before := w.model.version
		w.SetTemplates(&fleetv1.TemplateSet{
			Templates:  []*requirements{desk()},
			NodeGroups: []*fleetv1.NodeGroup{{Name: "desktops", Labels: map[string]string{"pool": "desktops"}, MaxNodes: &most}},
		})
		return w.model.version != before
	}
	if !set(1) || set(1) || !set(2) || !set(1) || set(1) {
		t.Error("only other node groups are a change")
	}
	if w.SetTemplates(nil); len(w.model.templates) != 0 || w.model.growth != nil {
		t.Error("a hub without templates is no change")
	}
}

func TestOnlyWhatAGroupNeedsIsWatched(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(10 * time.Second)
	f := watchGroups(t)
	f.declare(desktops())
	g.Eventually(f.growable).Should(BeEquivalentTo(12))
	for _, verb := range f.watched() {
		g.Expect(verb).To(HaveSuffix("daemonsets"))
	}
	f.declare(desktops(func(s *nodegroup.Spec) { s.ClusterAutoscalerGroup = "asg" }))
	g.Eventually(f.state).Should(Equal("Unknown the member has no ConfigMap kube-system/cluster-autoscaler-status"))
	status := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: autoscalerStatus, Annotations: map[string]string{
		nodegroup.AnnotationLastUpdated: time.Now().UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST"),
	}}, Data: map[string]string{"status": "nodeGroups:\n- name: asg\n  health: {cloudProviderTarget: 0, maxSize: 2}\n"}}
	_, err := f.client.CoreV1().ConfigMaps("kube-system").Create(t.Context(), status, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Eventually(f.growable).Should(BeEquivalentTo(8))
	g.Expect(f.objects.Actions()).To(BeEmpty())
	g.Expect(f.client.CoreV1().ConfigMaps("kube-system").Delete(t.Context(), autoscalerStatus, metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(f.growable).Should(BeZero())
}

func TestChangesOfDependencesAreAnnounced(t *testing.T) {
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(10 * time.Second)
	f := watchGroups(t)
	f.declare(desktops())
	g.Eventually(f.growable).Should(BeEquivalentTo(12))
	f.update(waits("p", resources(1000, 1)))
	changed := func() types.NamespacedName {
		select {
		case e := <-f.GrowthChanges():
			return types.NamespacedName{Namespace: e.Object.GetNamespace(), Name: e.Object.GetName()}
		default:
			return types.NamespacedName{}
		}
	}
	g.Eventually(changed).Should(Equal(types.NamespacedName{Namespace: "demo", Name: "p"}))
	g.Expect(f.Growth("p")).To(Equal(observe.Growth{Group: "desktops", Usual: 2 * time.Minute}))
	g.Consistently(changed, 100*time.Millisecond).Should(BeZero())
	f.declare()
	g.Eventually(changed).Should(Equal(types.NamespacedName{Namespace: "demo", Name: "p"}))
	g.Expect(f.Growth("p")).To(Equal(observe.Growth{}))
}

func TestTimesOfAPodAreRead(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "d", UID: "u", CreationTimestamp: metav1.NewTime(nine),
		OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: new(true)}}}}
	p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: "In", Values: []string{"n1"}}}}}}}}
	later := nine.Add(time.Minute)
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(later)}}
	key := types.NamespacedName{Namespace: "demo", Name: "d"}
	if got := PodOf(p); !got.Daemon || got.Times == nil || *got.Times != (PodTimes{Key: key, Created: nine, Unschedulable: later, Node: "n1"}) {
		t.Errorf("%+v", got.Times)
	}
	p.Spec.NodeName = "n1"
	if got := PodOf(p); !got.Daemon || got.Times != nil {
		t.Errorf("a bound Pod of another owner keeps %+v", got.Times)
	}
	p.OwnerReferences, p.Labels = nil, map[string]string{"vdi.kasm.io/session-uid": "s"}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(later)}}
	if got := PodOf(p); got.Daemon || got.Times == nil || *got.Times != (PodTimes{Key: key, Created: nine, Bound: later}) {
		t.Errorf("%+v", got.Times)
	}
}
