package capacity

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func TestNamespacesThatEnforcePodSecurity(t *testing.T) {
	namespace := func(name string, labels map[string]string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	}
	ending := namespace("ending", nil)
	ending.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	got := enforcing([]*corev1.Namespace{
		namespace("restricted", map[string]string{v1alpha1.LabelPodSecurity: "restricted"}),
		namespace("baseline", map[string]string{v1alpha1.LabelPodSecurity: "baseline"}),
		namespace("warned", map[string]string{"pod-security.kubernetes.io/warn": "restricted"}),
		namespace("none", nil), ending,
	})
	want := map[string]bool{"restricted": true, "baseline": false, "warned": false, "none": false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
