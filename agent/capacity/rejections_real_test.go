package capacity_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/observe"
	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// A Pod for which a real kube-scheduler finds no node counts on a node group until an event of it shows that the
// autoscaler adds none, whichever API of the API server the event was written by.
func TestEventsOfPodsOnARealAPIServer(t *testing.T) {
	f := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	g := NewWithT(t)
	g.SetDefaultEventuallyTimeout(30 * time.Second)
	inPool := map[string]string{"pool": "desktops"}
	f.watcher.SetTemplates(&fleetv1.TemplateSet{
		Templates: []*fleetv1.TemplateRequirements{
			{Name: "desk", Revision: "r1", Resources: map[string]string{"cpu": "1", "memory": "1Gi"}, NodeSelector: inPool},
			{Name: "other", Revision: "r1", Resources: map[string]string{"cpu": "1", "memory": "1Gi"}, NodeSelector: inPool},
			{Name: "third", Revision: "r1", Resources: map[string]string{"cpu": "1", "memory": "1Gi"}, NodeSelector: inPool},
		},
		NodeGroups: []*fleetv1.NodeGroup{{
			Name: "desktops", Labels: inPool, MaxNodes: ptr.To[int32](3), Allocatable: map[string]string{"cpu": "4", "memory": "32Gi", "pods": "110"},
		}},
	})
	growable := func() (out []int32) {
		for _, r := range f.watcher.Report().GetTemplates() {
			out = append(out, r.GetGrowableSlots())
		}
		return out
	}
	g.Eventually(growable).Should(Equal([]int32{12, 12, 12}))

	waits := func(template string) *corev1.Pod {
		a := f.assign(ctx, g, "of-"+template, func(a *v1alpha1.SessionAssignment) { a.Spec.Template = template })
		p := desktop("desktops", a.Name, "1", a.Spec.Session.UID)
		p.Spec.NodeSelector = inPool
		p, err := f.Client.CoreV1().Pods("desktops").Create(ctx, p, metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		return p
	}
	desk, other, unrejected := waits("desk"), waits("other"), waits("third")
	view := func(p *corev1.Pod) func() observe.Growth {
		return func() observe.Growth { return f.watcher.Growth(p.UID) }
	}
	for _, p := range []*corev1.Pod{desk, other, unrejected} {
		g.Eventually(view(p)).Should(Equal(observe.Growth{Group: "desktops", Usual: 2 * time.Minute}))
	}
	f.rejectByCore(ctx, g, desk)
	f.rejectByEvents(ctx, g, other)
	g.Eventually(growable).Should(Equal([]int32{0, 0, 11}), "two of three classes are rejected")
	for _, p := range []*corev1.Pod{desk, other} {
		g.Eventually(view(p)).Should(HaveField("Failed", ContainSubstring("cluster-autoscaler adds none for this desktop, 2 node(s) didn't match")))
	}
	g.Expect(view(unrejected)()).To(Equal(observe.Growth{Group: "desktops", Usual: 2 * time.Minute}))
}

const rejection = "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector"

func (f *fixture) rejectByCore(ctx context.Context, g *WithT, p *corev1.Pod) {
	now := metav1.Now()
	e := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: "e-"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		Source:         corev1.EventSource{Component: "cluster-autoscaler"}, Type: corev1.EventTypeNormal,
		Reason: "NotTriggerScaleUp", Message: rejection, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
	_, err := f.Client.CoreV1().Events(p.Namespace).Create(ctx, e, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}

func (f *fixture) rejectByEvents(ctx context.Context, g *WithT, p *corev1.Pod) {
	e := &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: p.Namespace, GenerateName: "e-"},
		Regarding:           corev1.ObjectReference{Kind: "Pod", APIVersion: "v1", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
		ReportingController: "cluster-autoscaler", ReportingInstance: "x", Type: corev1.EventTypeNormal, Action: "ScaleUp",
		Reason: "NotTriggerScaleUp", Note: rejection, EventTime: metav1.NowMicro(),
	}
	_, err := f.Client.EventsV1().Events(p.Namespace).Create(ctx, e, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}
