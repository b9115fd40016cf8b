package children

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

func desktop(change ...func(*api.SessionAssignment)) *api.SessionAssignment {
	a := &api.SessionAssignment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: "web-0123456789", UID: "assignment", Generation: 1, Finalizers: []string{api.AssignmentFinalizer},
			Labels: map[string]string{api.LabelManagedBy: api.ManagedBy, api.LabelSessionUID: "session"},
		},
		Spec: api.SessionAssignmentSpec{
			Session:  api.SessionReference{Namespace: "team", Name: "web", UID: "session"},
			Epoch:    2,
			User:     "jane@example.com",
			RunState: api.ModeRunning,
			Host:     "web.example.com",
			Desktop:  api.Desktop{Image: "browser:1", Port: 80},
		},
	}
	for _, c := range change {
		c(a)
	}
	return a
}

func perUser(a *api.SessionAssignment) {
	a.Spec.Desktop.Home = api.AssignedHome{Mode: api.HomePerUser, ClaimName: "home-x"}
}

func perSession(a *api.SessionAssignment) {
	a.Spec.Desktop.Home = api.AssignedHome{Mode: api.HomePerSession, ClaimName: a.Name}
}

func TestOwnership(t *testing.T) {
	a := desktop()
	owned := func(owner *metav1.OwnerReference, marked bool) *corev1.Pod {
		p := render.Pod(a)
		p.OwnerReferences = nil
		if owner != nil {
			p.OwnerReferences = []metav1.OwnerReference{*owner}
		}
		if !marked {
			p.Labels = nil
		}
		return p
	}
	by := func(kind, name string) *metav1.OwnerReference {
		return &metav1.OwnerReference{Kind: kind, Name: name, UID: "x", Controller: ptr.To(true)}
	}
	own := render.Owner(a)
	cases := map[string]struct {
		pod *corev1.Pod
		own bool
	}{
		"own":                     {owned(&own, true), true},
		"own, without labels":     {owned(&own, false), true},
		"own, without owner":      {owned(nil, true), true},
		"without an owner":        {owned(nil, false), false},
		"another controller's":    {owned(by("ReplicaSet", "rs"), true), false},
		"an earlier assignment's": {owned(by("SessionAssignment", a.Name), true), false},
		"another assignment's":    {owned(by("SessionAssignment", "other"), true), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := otherOwner(a, c.pod); (got == "") != c.own {
				t.Errorf("owner %q, want own: %t", got, c.own)
			}
		})
	}
}

func TestOwnershipOfHomes(t *testing.T) {
	cases := map[string]struct {
		a      *api.SessionAssignment
		change func(*corev1.PersistentVolumeClaim)
		own    bool
	}{
		"a user's own":                   {desktop(perUser), func(*corev1.PersistentVolumeClaim) {}, true},
		"another user's":                 {desktop(perUser), func(c *corev1.PersistentVolumeClaim) { c.Annotations[render.AnnotationUser] = "joe" }, false},
		"a user's, without its user":     {desktop(perUser), func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }, false},
		"a session's, where a user's is": {desktop(perUser), func(c *corev1.PersistentVolumeClaim) { c.Labels[render.LabelHomeMode] = "PerSession" }, false},
		"a session's own":                {desktop(perSession), func(*corev1.PersistentVolumeClaim) {}, true},
		"another session's":              {desktop(perSession), func(c *corev1.PersistentVolumeClaim) { c.Labels[api.LabelSessionUID] = "x" }, false},
		"a user's, where a session's is": {desktop(perSession), func(c *corev1.PersistentVolumeClaim) { c.Labels[render.LabelHomeMode] = "PerUser" }, false},
		"without labels":                 {desktop(perSession), func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			claim := render.Home(c.a)
			c.change(claim)
			if got := otherOwnerOfHome(c.a, claim); (got == "") != c.own {
				t.Errorf("owner %q, want own: %t", got, c.own)
			}
		})
	}
}
