package session

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/agent/render"
	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var pod = schema.GroupResource{Resource: "pods"}

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

func TestStrangers(t *testing.T) {
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
		"ours":                    {owned(&own, true), true},
		"ours, without labels":    {owned(&own, false), true},
		"ours, without owner":     {owned(nil, true), true},
		"nobody's":                {owned(nil, false), false},
		"another controller's":    {owned(by("ReplicaSet", "rs"), true), false},
		"an earlier assignment's": {owned(by("SessionAssignment", a.Name), true), false},
		"another assignment's":    {owned(by("SessionAssignment", "other"), true), false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := strangerTo(a, c.pod); (got == "") != c.own {
				t.Errorf("a stranger's, %q; want ours: %t", got, c.own)
			}
		})
	}
}

func TestStrangersHomes(t *testing.T) {
	cases := map[string]struct {
		a      *api.SessionAssignment
		change func(*corev1.PersistentVolumeClaim)
		own    bool
	}{
		"a user's own":                      {desktop(perUser), func(*corev1.PersistentVolumeClaim) {}, true},
		"another user's":                    {desktop(perUser), func(c *corev1.PersistentVolumeClaim) { c.Annotations[render.AnnotationUser] = "joe" }, false},
		"a user's, without its user":        {desktop(perUser), func(c *corev1.PersistentVolumeClaim) { c.Annotations = nil }, false},
		"a session's, where a user's is":    {desktop(perUser), func(c *corev1.PersistentVolumeClaim) { c.Labels[render.LabelHomeMode] = "PerSession" }, false},
		"a session's own":                   {desktop(perSession), func(*corev1.PersistentVolumeClaim) {}, true},
		"another session's":                 {desktop(perSession), func(c *corev1.PersistentVolumeClaim) { c.Labels[api.LabelSessionUID] = "x" }, false},
		"a user's, where a session's is":    {desktop(perSession), func(c *corev1.PersistentVolumeClaim) { c.Labels[render.LabelHomeMode] = "PerUser" }, false},
		"somebody's, who knows no sessions": {desktop(perSession), func(c *corev1.PersistentVolumeClaim) { c.Labels = nil }, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			claim := render.Home(c.a)
			c.change(claim)
			if got := strangerHome(c.a, claim); (got == "") != c.own {
				t.Errorf("a stranger's, %q; want ours: %t", got, c.own)
			}
		})
	}
}

// What the API server fills in and others add is no drift.
func TestAlignLeavesWhatOthersSay(t *testing.T) {
	a := desktop()
	service := render.Service(a)
	service.Spec.ClusterIP, service.Spec.SessionAffinity = "10.0.0.1", corev1.ServiceAffinityNone
	service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	service.Labels["someone"], service.Annotations["someone"] = "else", "else"
	service.OwnerReferences = append(service.OwnerReferences, metav1.OwnerReference{UID: "other"})
	before := service.DeepCopy()
	alignService(service, render.Service(a))
	if !equality.Semantic.DeepEqual(before, service) {
		t.Errorf("the Service changed: %v", service)
	}

	ingress := render.Ingress(a, render.Network{})
	ingress.Spec.IngressClassName = ptr.To("the-default")
	ingress.Spec.TLS = []networkingv1.IngressTLS{{SecretName: "x"}}
	beforeIngress := ingress.DeepCopy()
	alignIngress(ingress, render.Ingress(a, render.Network{}))
	if !equality.Semantic.DeepEqual(beforeIngress, ingress) {
		t.Errorf("the Ingress changed: %v", ingress)
	}

	p := render.Pod(a)
	p.Spec.NodeName, p.Spec.ServiceAccountName = "n", "default"
	p.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready"}}
	beforePod := p.DeepCopy()
	alignPod(p, render.Pod(a))
	if !equality.Semantic.DeepEqual(beforePod, p) {
		t.Errorf("the Pod changed: %v", p)
	}
}

func TestAlignPutsBackWhatWasRendered(t *testing.T) {
	a := desktop(func(a *api.SessionAssignment) { a.Spec.Desktop.IngressClassName = "nginx" })
	service := render.Service(a)
	service.Spec.Selector, service.Spec.Ports[0].TargetPort = nil, intstr.FromInt32(1)
	service.Labels, service.OwnerReferences = nil, nil
	alignService(service, render.Service(a))
	if want := render.Service(a); !equality.Semantic.DeepEqual(want, service) {
		t.Errorf("the Service is %v, want %v", service, want)
	}
	ingress := render.Ingress(a, render.Network{})
	ingress.Spec.IngressClassName, ingress.Spec.Rules = ptr.To("other"), nil
	alignIngress(ingress, render.Ingress(a, render.Network{}))
	if want := render.Ingress(a, render.Network{}); !equality.Semantic.DeepEqual(want, ingress) {
		t.Errorf("the Ingress is %v, want %v", ingress, want)
	}
	p := render.Pod(a)
	p.Spec.Containers[0].Image, p.Annotations[api.AnnotationEpoch] = "evil", "1"
	alignPod(p, render.Pod(a))
	if want := render.Pod(a); !equality.Semantic.DeepEqual(want, p) {
		t.Errorf("the Pod is %v, want %v", p, want)
	}
}

func TestAPodOfAnotherDesktopKeepsItsImage(t *testing.T) {
	a := desktop()
	p := render.Pod(a)
	hash := p.Annotations[render.AnnotationDesktopHash]
	a.Spec.Desktop.Image, a.Spec.Epoch = "browser:2", 3
	alignPod(p, render.Pod(a))
	if p.Spec.Containers[0].Image != "browser:1" || p.Annotations[render.AnnotationDesktopHash] != hash {
		t.Errorf("image %s, hash %s", p.Spec.Containers[0].Image, p.Annotations[render.AnnotationDesktopHash])
	}
	if p.Annotations[api.AnnotationEpoch] != "3" {
		t.Errorf("epoch %s", p.Annotations[api.AnnotationEpoch])
	}
}

func runs(p *corev1.Pod) {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
}

func TestOutdated(t *testing.T) {
	waits := func(*corev1.Pod) {}
	changed := func(a *api.SessionAssignment) { a.Spec.Desktop.Image = "browser:2" }
	anew := func(a *api.SessionAssignment) { a.Spec.Epoch++ }
	cases := map[string]struct {
		pod    func(*corev1.Pod)
		change []func(*api.SessionAssignment)
		want   bool
	}{
		"as it was":                 {runs, nil, false},
		"placed anew, same desktop": {runs, []func(*api.SessionAssignment){anew}, false},
		"changed, running":          {runs, []func(*api.SessionAssignment){changed}, false},
		"changed, not running":      {waits, []func(*api.SessionAssignment){changed}, false},
		"changed and placed anew":   {runs, []func(*api.SessionAssignment){changed, anew}, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := render.Pod(desktop())
			c.pod(p)
			if got := outdated(desktop(c.change...), p); got != c.want {
				t.Errorf("outdated = %t, want %t", got, c.want)
			}
		})
	}
}

func TestAPodThatStartsThisMomentIsNotReplaced(t *testing.T) {
	s := newStage(t, desktop())
	s.pass()
	s.refuse = func(write string) error {
		if write == "delete Pod" {
			s.refuse = nil
			s.setPod(func(p *corev1.Pod) { runs(p); makeReady(p) }) // after the agent has looked
		}
		return nil
	}
	s.order(func(a *api.SessionAssignmentSpec) { a.Desktop.Image = "browser:2" })
	s.after(soon)
	var p corev1.Pod
	if s.get(&p); p.Spec.Containers[0].Image != "browser:1" {
		t.Error("a desktop that ran was deleted")
	}

	s = newStage(t, desktop())
	s.pass()
	s.order(func(a *api.SessionAssignmentSpec) { a.Desktop.Image = "browser:2" })
	s.after(soon)
	if s.get(&p); p.Spec.Containers[0].Image != "browser:2" {
		t.Errorf("its image is %s: it did not run, and was not replaced", p.Spec.Containers[0].Image)
	}
}
