package cluster

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

// A result that a member has stored another spec does not report the state of that spec.
func TestStatusIsOfAnEarlierSpecOnceAnotherIsStored(t *testing.T) {
	for _, c := range []struct {
		hash string
		want int64
	}{{"same", 7}, {"other", 0}} {
		old := item("a", 5, active)
		old.Status.ObservedGeneration = 7
		metav1.SetMetaDataAnnotation(&old.ObjectMeta, v1alpha1.AnnotationSpecHash, "same")
		got := afterStored(old, &protocol.Result{Code: protocol.Stored, SessionUID: "uid-a", Namespace: "desktops", Name: "a", Epoch: 5, SpecHash: c.hash})
		if got.Status.ObservedGeneration != c.want {
			t.Errorf("after %q: the status is of generation %d, want %d", c.hash, got.Status.ObservedGeneration, c.want)
		}
	}
}

// The hub keeps what a member has reported in less memory than it came in, and loses nothing of it.
func TestAStoredStatusIsAsReported(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 28, 7, 50, 0, 0, time.UTC))
	reported := item("a", 5, active)
	reported.Status.Message, reported.Status.NodeName, reported.Status.StartTime = "Running.", "node-1", &at
	reported.Status.Conditions = []metav1.Condition{
		{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", Message: "The desktop answers.", ObservedGeneration: 7, LastTransitionTime: at},
		{Type: "Failing", Status: metav1.ConditionFalse, Reason: "None"}, // without a time
	}
	want := reported.DeepCopy()
	c := newCache(nil, nil)
	c.Apply([]protocol.Report{{SessionAssignment: reported}})
	for range 2 {
		got := c.Get(keyOf(reported))
		if got == nil || !equality.Semantic.DeepEqual(got.Status, want.Status) {
			t.Fatalf("stored:\n%+v\nreported:\n%+v", got, want.Status)
		}
		// It is a copy: changes of it do not alter the cache.
		got.Status.StartTime.Time, got.Status.Conditions[0].Message = time.Time{}, "Another."
	}
}
