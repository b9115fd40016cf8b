package lifecycle

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/home"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

func TestMembersThatAHomeAllows(t *testing.T) {
	const other = types.UID("uid-other")
	perUser := &v1alpha1.TemplateSpec{Home: v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser}}
	perSession := &v1alpha1.TemplateSpec{Home: v1alpha1.TemplateHome{Mode: v1alpha1.HomePerSession}}
	fresh := func(s *v1alpha1.VDISession) { s.Spec.FreshHome = true }
	hasOwn := func(s *v1alpha1.VDISession) {
		s.Status.Home = &v1alpha1.SessionHome{ClusterName: "eu", ClusterUID: sessiontest.Here, ClaimName: "mine"}
	}
	started := func(s *v1alpha1.VDISession) {
		at := metav1.Unix(1_600_000_000, 0)
		s.Status.StartTime = &at
	}
	mounted := func(by types.UID, unused bool) func(*v1alpha1.VDIHome) {
		return func(h *v1alpha1.VDIHome) {
			if h.Status.MountedByUID = by; by == "" {
				h.Status.MountedBy = ""
			}
			if !unused {
				delete(h.Annotations, home.AnnotationUnused)
			}
		}
	}
	for _, c := range []struct {
		name    string
		spec    *v1alpha1.TemplateSpec
		home    func(*v1alpha1.VDIHome)
		session []func(*v1alpha1.VDISession)
		want    string
	}{
		{"no home is requested", &v1alpha1.TemplateSpec{}, mounted(other, false), nil, "anywhere"},
		{"its home is free", perUser, mounted("", false), nil, "uid-here"},
		{"its home is its own", perUser, mounted("uid-session", false), nil, "uid-here"},
		{"its home is another's", perUser, mounted(other, false), nil, "waits: HomeInUse"},
		{"a fresh one is requested, and the home is another's", perUser, mounted(other, false), []func(*v1alpha1.VDISession){fresh}, "waits: HomeInUse"},
		{"a fresh one is requested", perUser, mounted("", false), []func(*v1alpha1.VDISession){fresh}, "anywhere, fresh"},
		{"the fresh one that was made for it", perUser, mounted("uid-session", true), []func(*v1alpha1.VDISession){fresh}, "anywhere"},
		{"the fresh one that it has had", perUser, mounted("uid-session", false), []func(*v1alpha1.VDISession){fresh, hasOwn, started}, "uid-here"},
		{"nothing is in its home yet", perUser, mounted("", true), nil, "anywhere"},
		{"it is placed elsewhere than its home", perUser, mounted("", false), []func(*v1alpha1.VDISession){sessiontest.PlacedAt(sessiontest.Elsewhere, 5)}, "waits: NoCapacityToResume"},
		{"a home of its own, which it has used", perSession, mounted(other, false), []func(*v1alpha1.VDISession){hasOwn, started}, "uid-here"},
		{"a home of its own, which it never came to use", perSession, mounted(other, false), []func(*v1alpha1.VDISession){hasOwn}, "anywhere"},
		{"a home of its own, where it is", perSession, mounted(other, false), []func(*v1alpha1.VDISession){hasOwn, sessiontest.PlacedAt(sessiontest.Here, 5)}, "uid-here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &v1alpha1.VDIHome{Spec: v1alpha1.HomeSpec{ClusterName: "eu", ClusterUID: sessiontest.Here}}
			h.Annotations = map[string]string{home.AnnotationUnused: "true"}
			c.home(h)
			p := newPass(&Input{Session: sessiontest.With(c.session...), Home: h, Now: sessiontest.Now})
			p.spec = c.spec
			n := p.acquireHome()
			got := "anywhere"
			switch {
			case n == done:
				got = "waits: " + meta.FindStatusCondition(p.Session.Status.Conditions, v1alpha1.ConditionScheduled).Reason
			case p.home.pinned != nil:
				got = string(p.home.pinned.UID)
			case p.home.Fresh:
				got += ", fresh"
			}
			if got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
