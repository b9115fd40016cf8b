package session

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	"github.com/vdi-fleet/vdi-fleet/agent/session/children"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// policyKey is the policy's that the session requires.
func (s *stage) policyKey() types.NamespacedName {
	return types.NamespacedName{Namespace: s.key.Namespace, Name: render.NetworkPolicy(s.assignment(), render.Network{}).Name}
}

func (s *stage) selected() string {
	var p corev1.Pod
	s.get(&p)
	return p.Labels[render.LabelNetworkPolicy]
}

func TestAPodReliesOnNoPolicyWhoseRemovalIsDue(t *testing.T) {
	s := newStage(t, desktop())
	policy := render.NetworkPolicy(s.assignment(), render.Network{})
	policy.Annotations = map[string]string{api.AnnotationLastUse: "2026-01-01T00:00:00Z"}
	if err := s.client.Create(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	s.deny("patch NetworkPolicy", apierrors.NewConflict(schema.GroupResource{}, policy.Name, errors.New("changed meanwhile")))
	s.pass()
	if s.count("create Pod") != 0 {
		t.Fatalf("a Pod relies on a policy that may be deleted: %v", s.writes)
	}
	s.refuse = nil
	s.after(children.RetryAfter(0))
	if s.count("create Pod") != 1 {
		t.Errorf("no Pod once the mark was removed: %v", s.writes)
	}
	var kept networkingv1.NetworkPolicy
	if err := s.client.Get(t.Context(), s.policyKey(), &kept); err != nil || kept.Annotations[api.AnnotationLastUse] != "" {
		t.Errorf("%v, annotations %v", err, kept.Annotations)
	}
}

func TestAPodChangesToAnotherPolicyOnceThatIsInForce(t *testing.T) {
	s := newStage(t, desktop())
	s.pass()
	before := s.selected()
	s.edit(func(a *api.SessionAssignment) { a.Spec.Desktop.NetworkPolicy.EgressCIDRs = []string{"10.20.0.0/16"} })
	s.deny("create NetworkPolicy", apierrors.NewForbidden(pod, "x", errors.New("denied")))
	s.pass()
	if got := s.selected(); got != before || before == "" {
		t.Errorf("the Pod is selected by policy %q, which does not exist, and was by %q", got, before)
	}
	s.refuse = nil
	s.after(children.RetryAfter(0))
	if got := s.selected(); got == before || s.policyKey().Name != "vdi-desktops-"+got {
		t.Errorf("the Pod is selected by policy %q, want that of %s", got, s.policyKey())
	}
	s.edit(func(a *api.SessionAssignment) { a.Spec.Desktop.NetworkPolicy.Mode = api.NetworkOpen })
	s.after(time.Minute)
	if got := s.selected(); got != "" {
		t.Errorf("an open desktop is selected by policy %q", got)
	}
}

func TestASuspendedDesktopRequiresNoIsolation(t *testing.T) {
	s := newStage(t, desktop(func(a *api.SessionAssignment) { a.Spec.RunState = api.ModeSuspended }))
	s.pass()
	if s.count("create NetworkPolicy")+s.count("create PodDisruptionBudget") != 0 {
		t.Errorf("writes: %v", s.writes)
	}
}
