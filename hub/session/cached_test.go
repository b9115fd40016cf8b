package session

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/trim"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

// large returns a session with everything that a user may put into one.
func large(change ...func(*v1alpha1.VDISession)) *v1alpha1.VDISession {
	s := sessiontest.With(change...)
	s.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: strings.Repeat("x", 200<<10), v1alpha1.AnnotationMove: "eu"}
	s.Labels = map[string]string{"team": "a"}
	s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	s.Spec.Env = []v1alpha1.EnvVar{{Name: "A", Value: strings.Repeat("x", 4<<10)}}
	s.Spec.Files = []v1alpha1.ConfigFile{{Name: "a", Content: strings.Repeat("x", 16<<10)}}
	return s
}

func nowhere(s *v1alpha1.VDISession) { s.Status.Placement = nil }

// manyLabels returns labels that nothing but the size limit of a request bounds.
func manyLabels() map[string]string {
	all := map[string]string{}
	for i := range 20000 {
		all["label-"+strconv.Itoa(i)] = strings.Repeat("x", 50)
	}
	return all
}

func TestTheCacheKeepsOfASessionWhatTheHubReads(t *testing.T) {
	placed, waiting := large(sessiontest.PlacedAt(sessiontest.Here, 5)), large(nowhere)
	for range 2 { // a transform may run on its own result
		for _, s := range []*v1alpha1.VDISession{placed, waiting} {
			trimmed(t, s)
		}
	}
	want := map[string]string{v1alpha1.AnnotationMove: "eu", trim.AnnotationOmitted: "0"}
	for _, s := range []*v1alpha1.VDISession{placed, waiting} {
		if diff := cmp.Diff(want, s.Annotations); diff != "" || s.ManagedFields != nil || s.Labels["team"] != "a" {
			t.Errorf("metadata: managed fields %v, labels %v, annotations (-want +got):\n%s", s.ManagedFields, s.Labels, diff)
		}
		if c := refusal(s); c != nil {
			t.Errorf("it is not accepted: %s: %s", c.Reason, c.Message)
		}
	}
	if len(placed.Spec.Env) != 1 || len(placed.Spec.Files) != 1 {
		t.Error("what the member is to be sent is left out")
	}
	if waiting.Spec.Env[0] != (v1alpha1.EnvVar{Name: "A"}) || waiting.Spec.Files[0] != (v1alpha1.ConfigFile{Name: "a"}) {
		t.Error("of env and files of a session that has no member, not just the names are kept")
	}
}

// trimmed passes an object through the cache's transform of its kind.
func trimmed(t *testing.T, o client.Object) {
	t.Helper()
	for kind, by := range Cached("vdi-system", nil) {
		if reflect.TypeOf(kind) == reflect.TypeOf(o) {
			if _, err := by.Transform(o); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no transform of %T", o)
}

// refusal returns why a session that may override all of its template is not accepted,
// or nil.
func refusal(s *v1alpha1.VDISession) *metav1.Condition {
	spec := v1alpha1.TemplateSpec{OverridableEnv: []string{"*"}}
	unplaced := s.DeepCopy()
	unplaced.Status = v1alpha1.SessionStatus{}
	preview, _ := lifecycle.PreviewOf(&lifecycle.Input{Session: unplaced, Template: lifecycle.Template{Current: &v1alpha1.VDITemplate{Spec: spec}}})
	return preview.Refused
}

func TestASessionThatIsTooLargeIsNotAccepted(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.VDISession){
		"labels": func(s *v1alpha1.VDISession) { s.Labels = manyLabels() },
		"ownerReferences": func(s *v1alpha1.VDISession) {
			s.OwnerReferences = []metav1.OwnerReference{{Name: strings.Repeat("x", 1<<20)}}
		},
		"finalizers": func(s *v1alpha1.VDISession) {
			for i := range 5000 {
				s.Finalizers = append(s.Finalizers, "example.com/finalizer-"+strconv.Itoa(i))
			}
		},
		"a selector": func(s *v1alpha1.VDISession) {
			s.Spec.Placement.ClusterSelector = &metav1.LabelSelector{MatchLabels: manyLabels()}
		},
		"a toleration": func(s *v1alpha1.VDISession) {
			s.Spec.Placement.ClusterTolerations = []corev1.Toleration{{Key: strings.Repeat("x", 1<<20)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sessiontest.With(change)
			s.Finalizers = append(s.Finalizers, v1alpha1.Finalizer)
			trimmed(t, s)
			trimmed(t, s)
			if got := refusal(s); got == nil || got.Reason != v1alpha1.ReasonSessionTooLarge {
				t.Errorf("got %v", got)
			}
			if diff := cmp.Diff([]string{v1alpha1.Finalizer}, s.Finalizers); diff != "" {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
			if size := trim.MetadataSize(s); size > trim.MaxSize || len(s.Spec.Placement.ClusterTolerations) > 0 || s.Spec.Placement.ClusterSelector != nil {
				t.Errorf("%d bytes of metadata, and %+v are kept", size, s.Spec.Placement)
			}
		})
	}
}

func TestTheCacheKeepsOfAReviewWhatIsPlacedBy(t *testing.T) {
	s := large(nowhere)
	review := &v1alpha1.PlacementReview{}
	review.Spec.Session, review.Spec.Labels = &s.Spec, s.Labels
	trimmed(t, review)
	if s := review.Spec.Session; s.Env[0].Value != "" || s.Files[0].Content != "" || s.User == "" || trim.Omitted(review) != 0 {
		t.Errorf("kept: %+v", s)
	}
	review.Spec.Labels = manyLabels()
	trimmed(t, review)
	if trim.Omitted(review) < 1<<20 || review.Spec.Labels != nil {
		t.Errorf("%d labels are kept of a review of %d bytes", len(review.Spec.Labels), trim.Omitted(review))
	}
}
