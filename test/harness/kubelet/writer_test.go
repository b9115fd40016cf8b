package kubelet

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestReadinessThatAnotherHasWrittenIsWrittenAgain(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: "desk", UID: "u", ResourceVersion: "7"}}
	of := func(ready corev1.ConditionStatus, version string) *corev1.Pod {
		p := pod.DeepCopy()
		p.ResourceVersion = version
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}
		return p
	}
	for name, tc := range map[string]struct {
		seen  *corev1.Pod
		again bool
	}{
		"the own write":                        {of(corev1.ConditionTrue, "7"), false},
		"what was before it":                   {of(corev1.ConditionFalse, "6"), false},
		"another's, of something else":         {of(corev1.ConditionTrue, "8"), false},
		"the node lifecycle controller's":      {of(corev1.ConditionFalse, "8"), true},
		"the node lifecycle controller's late": {of(corev1.ConditionFalse, "10"), true},
	} {
		w := newWriter(fake.NewClientset(pod))
		w.put(pod, of(corev1.ConditionTrue, "").Status, false)
		uid, _ := w.queue.Get()
		if err := w.write(t.Context(), uid); err != nil {
			t.Fatal(err)
		}
		w.queue.Done(uid)
		w.wrote(*w.updates["u"], "7") // the fake counts no versions
		w.repair(tc.seen)
		if again := w.queue.Len() > 0; again != tc.again {
			t.Errorf("%s: written again: %v", name, again)
		}
		w.queue.ShutDown()
	}
}

// On a busy machine the watch may be faster than the answer to the write.
func TestReadinessThatIsOverwrittenBeforeTheAnswerIsWrittenAgain(t *testing.T) {
	of := func(ready corev1.ConditionStatus, version string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "desks", Name: "desk", UID: "u", ResourceVersion: version},
			Status:     corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	for name, tc := range map[string]struct {
		seen  string
		again bool
	}{
		"what was before the write": {"6", false},
		"what came after it":        {"8", true},
	} {
		w := newWriter(nil)
		w.put(of("", ""), of(corev1.ConditionTrue, "").Status, false)
		uid, _ := w.queue.Get()
		w.repair(of(corev1.ConditionFalse, tc.seen))
		w.wrote(*w.updates["u"], "7")
		w.queue.Done(uid)
		if again := w.queue.Len() > 0; again != tc.again {
			t.Errorf("%s: written again: %v", name, again)
		}
		w.queue.ShutDown()
	}
}
