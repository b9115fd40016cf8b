package leadership

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/vdi-fleet/vdi-fleet/proto/election"
)

const namespace = "vdi-system"

func hubPod(name string, leader bool, more map[string]string) *corev1.Pod {
	labels := map[string]string{appLabel: "vdi-hub"}
	if leader {
		labels[LabelRole] = RoleLeader
	}
	maps.Copy(labels, more)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

// marked are the names of the Pods that agents are sent to.
func marked(g Gomega, client *fake.Clientset) []string {
	list, err := client.CoreV1().Pods(namespace).List(context.Background(), metav1.ListOptions{LabelSelector: LabelRole + "=" + RoleLeader})
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, pod := range list.Items {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return names
}

// run runs the role of Pod a; the returned functions elect it and make it serve.
func run(t *testing.T, client *fake.Clientset, leadership *election.Leadership) (elect, serve func()) {
	elected, serving := make(chan struct{}), make(chan struct{})
	role := &Role{
		Pods: client.CoreV1().Pods(namespace), Pod: "a", Leadership: leadership, Elected: elected, Serving: serving,
		Retry: time.Millisecond, Resync: time.Hour,
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- role.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func() { close(elected) }, func() { close(serving) }
}

func TestAReplicaThatStartsRemovesOnlyItsOwnLabel(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(hubPod("a", true, nil), hubPod("b", true, nil))
	run(t, client, election.New())
	g.Eventually(func(g Gomega) { g.Expect(marked(g, client)).To(Equal([]string{"b"})) }).Should(Succeed())
}

func TestTheLeaderMovesTheLabelToItsPodOnceItListens(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(hubPod("a", false, nil), hubPod("b", true, nil), hubPod("c", true, nil),
		hubPod("other-app", true, map[string]string{appLabel: "another"}))
	elect, serve := run(t, client, election.Always())
	elect()
	g.Eventually(func(g Gomega) { g.Expect(marked(g, client)).To(Equal([]string{"other-app"})) }).Should(Succeed())
	serve()
	g.Eventually(func(g Gomega) { g.Expect(marked(g, client)).To(Equal([]string{"a", "other-app"})) }).Should(Succeed())
}

func TestALabelThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(hubPod("a", false, nil), hubPod("b", true, nil))
	tries := 0
	client.PrependReactor("patch", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		tries++
		return tries < 5, nil, errors.New("the API server is busy")
	})
	elect, serve := run(t, client, election.Always())
	elect()
	serve()
	g.Eventually(func(g Gomega) { g.Expect(marked(g, client)).To(Equal([]string{"a"})) }).Should(Succeed())
}

func TestAReplicaThatMayHaveLostTheLeadTouchesNoLabel(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(hubPod("a", false, nil), hubPod("b", true, nil))
	role := &Role{Pods: client.CoreV1().Pods(namespace), Pod: "a", Leadership: election.New()}
	g.Expect(role.align(t.Context(), true, true)).To(MatchError(election.ErrNotLeading))
	g.Expect(marked(g, client)).To(Equal([]string{"b"}))
}

func TestAPassThatFindsAllRightWritesNothing(t *testing.T) {
	g := NewWithT(t)
	client := fake.NewClientset(hubPod("a", true, nil), hubPod("b", false, nil))
	role := &Role{Pods: client.CoreV1().Pods(namespace), Pod: "a", Leadership: election.Always()}
	g.Expect(role.align(t.Context(), true, true)).To(Succeed())
	role.Pod = "b"
	g.Expect(role.align(t.Context(), false, false)).To(Succeed())
	for _, action := range client.Actions() {
		g.Expect(action.GetVerb()).NotTo(Equal("patch"))
	}
}
