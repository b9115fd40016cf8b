package session

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// unbound is a stage whose agent may write in no namespace, but for the finalizers of
// assignments.
func unbound(t *testing.T, goes bool) *stage {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team", Finalizers: []string{"test"}}}
	s := newStage(t, desktop(), namespace)
	s.pass()
	s.bind()
	s.setPod(makeReady)
	s.pass()
	if goes {
		if err := s.client.Delete(t.Context(), namespace); err != nil {
			t.Fatal(err)
		}
	}
	s.refuse = func(write string) error {
		if write == "patch SessionAssignment" {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: write}, "", nil)
	}
	if err := s.client.Delete(t.Context(), s.assignment()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAnAssignmentEndsWithItsNamespaceThoughTheAgentMayNotWriteThere(t *testing.T) {
	s := unbound(t, true)
	if s.pass() == 0 {
		t.Error("the Pod is not reconciled again")
	}
	if s.gone(&api.SessionAssignment{}) {
		t.Fatal("it ended before its Pod")
	}
	if err := s.client.Delete(t.Context(), s.thePod()); err != nil { // the namespace controller
		t.Fatal(err)
	}
	s.pass()
	if !s.gone(&api.SessionAssignment{}) {
		t.Error("it outlives the right to end it")
	}
}

func TestAnAssignmentStaysWhereTheAgentMayNotRemoveWhatIsLeft(t *testing.T) {
	s := unbound(t, false)
	if s.pass() == 0 {
		t.Error("it is not retried")
	}
	if s.gone(&api.SessionAssignment{}) {
		t.Error("it ended before its Pod")
	}
}
