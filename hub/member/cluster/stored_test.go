package cluster

import (
	"testing"

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
