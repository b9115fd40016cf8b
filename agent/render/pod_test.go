package render

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// The hash changes with all fields that define the Pod, and with no others.
func TestDesktopHashChangesWithThePod(t *testing.T) {
	large := resource.MustParse("1Ti")
	changes := map[string]func(*api.Desktop){
		"image":            func(d *api.Desktop) { d.Image = "other" },
		"pull policy":      func(d *api.Desktop) { d.ImagePullPolicy = corev1.PullAlways },
		"pull secrets":     func(d *api.Desktop) { d.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "other"}} },
		"command":          func(d *api.Desktop) { d.Command = []string{"other"} },
		"args":             func(d *api.Desktop) { d.Args = []string{"other"} },
		"port":             func(d *api.Desktop) { d.Port++ },
		"protocol":         func(d *api.Desktop) { d.Protocol = api.ProtocolHTTPS },
		"path":             func(d *api.Desktop) { d.Path = "/other" },
		"resources":        func(d *api.Desktop) { d.Resources[corev1.ResourceMemory] = resource.MustParse("8Gi") },
		"variable's name":  func(d *api.Desktop) { d.Env[0].Name = "OTHER" },
		"runtime class":    func(d *api.Desktop) { d.RuntimeClassName = "other" },
		"node selector":    func(d *api.Desktop) { d.NodeSelector = map[string]string{"other": "x"} },
		"tolerations":      func(d *api.Desktop) { d.Tolerations = []corev1.Toleration{{Key: "other"}} },
		"ingress class":    func(d *api.Desktop) { d.IngressClassName = "other" },
		"certificate":      func(d *api.Desktop) { d.TLSSecretName = "other" },
		"file's content":   func(d *api.Desktop) { d.Files[0].Content = "other" },
		"file's name":      func(d *api.Desktop) { d.Files[0].Name = "other" },
		"no files":         func(d *api.Desktop) { d.Files = nil },
		"config path":      func(d *api.Desktop) { d.ConfigMountPath = "/other" },
		"secret":           func(d *api.Desktop) { d.Secrets[0].Name = "other" },
		"secret's path":    func(d *api.Desktop) { d.Secrets[0].MountPath = "/other" },
		"access":           func(d *api.Desktop) { d.Access.SecretName = "other" },
		"password":         func(d *api.Desktop) { d.Access.PasswordEnv = "OTHER" },
		"activity":         func(d *api.Desktop) { d.Activity.Path = "/other" },
		"start timeout":    func(d *api.Desktop) { d.StartTimeout = "1h" },
		"shared memory":    func(d *api.Desktop) { d.SharedMemory = nil },
		"priority":         func(d *api.Desktop) { d.PriorityClassName = "other" },
		"network policy":   func(d *api.Desktop) { d.NetworkPolicy.Mode = api.NetworkOpen },
		"home's size":      func(d *api.Desktop) { d.Home.Size = &large },
		"home's class":     func(d *api.Desktop) { d.Home.StorageClassName = "other" },
		"home's access":    func(d *api.Desktop) { d.Home.AccessMode = corev1.ReadWriteMany },
		"home's retention": func(d *api.Desktop) { d.Home.Retention, d.Home.RetentionTime = api.RetentionDelete, "" },
		"home's claim":     func(d *api.Desktop) { d.Home.ClaimName = "other" },
		"home's path":      func(d *api.Desktop) { d.Home.MountPath = "/other" },
		"no home":          func(d *api.Desktop) { d.Home = api.AssignedHome{} },
	}
	base := Pod(assignment(everything))
	for what, change := range changes {
		pod := Pod(assignment(everything, func(a *api.SessionAssignment) { change(&a.Spec.Desktop) }))
		other := !equality.Semantic.DeepEqual(base.Spec, pod.Spec)
		if hash := base.Annotations[AnnotationDesktopHash] != pod.Annotations[AnnotationDesktopHash]; hash != other {
			t.Errorf("%s: the Pod is another: %t, the hash: %t", what, other, hash)
		}
	}
	// Values of variables are in the ConfigMap, and the desktop reads them once.
	value := Pod(assignment(everything, func(a *api.SessionAssignment) { a.Spec.Desktop.Env[0].Value = "other" }))
	if value.Annotations[AnnotationDesktopHash] == base.Annotations[AnnotationDesktopHash] {
		t.Error("a variable has another value, and the hash is the same")
	}
}

// A desktop's disk space is always limited; an assignment without it requests none.
func TestDiskSpaceIsLimited(t *testing.T) {
	for name, tc := range map[string]struct {
		requested      corev1.ResourceList
		request, limit string
	}{
		"of an older hub": {corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, "0", "4Gi"},
		"of nothing":      {nil, "0", "4Gi"},
		"as requested":    {corev1.ResourceList{corev1.ResourceEphemeralStorage: resource.MustParse("9Gi")}, "9Gi", "9Gi"},
	} {
		pod := Pod(assignment(everything, func(a *api.SessionAssignment) { a.Spec.Desktop.Resources = tc.requested }))
		got := pod.Spec.Containers[0].Resources
		request, set := got.Requests[corev1.ResourceEphemeralStorage]
		if limit := got.Limits.StorageEphemeral(); !set || request.String() != tc.request || limit.String() != tc.limit {
			t.Errorf("%s: requests %s (%t), limit %s", name, request.String(), set, limit)
		}
		for _, v := range pod.Spec.Volumes {
			if v.EmptyDir == nil {
				continue
			}
			if size := v.EmptyDir.SizeLimit; size == nil || size.Sign() <= 0 || v.Name == "tmp" && size.String() != tc.limit {
				t.Errorf("%s: volume %s is limited to %v", name, v.Name, size)
			}
		}
	}
}

func TestNoPlainVariableTakesThePlaceOfASecretOne(t *testing.T) {
	a := assignment(everything, func(a *api.SessionAssignment) {
		d := &a.Spec.Desktop
		d.Env = []api.EnvVar{{Name: "VNC_PW", Value: "guess"}, {Name: "PROXY_USER", Value: "me"}, {Name: "LANG", Value: "$(HOME)$$"}}
		d.Secrets[1].Env = append(d.Secrets[1].Env, api.SecretEnvVar{Name: "VNC_PW", Key: "other"})
	})
	var got []string
	for _, e := range Pod(a).Spec.Containers[0].Env {
		from := e.Value
		if e.ValueFrom != nil {
			from = e.ValueFrom.SecretKeyRef.Name + "/" + e.ValueFrom.SecretKeyRef.Key
		}
		got = append(got, e.Name+"="+from)
	}
	want := []string{"VNC_PW=" + a.Name + "-access/password", "PROXY_USER=proxy/user", "PROXY_PASSWORD=proxy/password", "LANG=$$(HOME)$$$$", "HOME=/home/user"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestNoSecretIsInClear(t *testing.T) {
	for name, change := range map[string]func(*api.SessionAssignment){"browser": func(*api.SessionAssignment) {}, "everything": everything} {
		for _, e := range Pod(assignment(change)).Spec.Containers[0].Env {
			if e.Value != "" && e.Name != "HOME" && e.Name != "LANG" {
				t.Errorf("%s: %s is in the Pod in clear text", name, e.Name)
			}
		}
	}
}

func TestADesktopHasItsTimeToStart(t *testing.T) {
	for timeout, want := range map[api.Duration]int32{"": 300, "90s": 90, "1h30m": 5400, "1500ms": 2, "1ms": 1, "0s": 300, "soon": 300, "1000000h": 1<<31 - 1} {
		probe := Pod(assignment(func(a *api.SessionAssignment) { a.Spec.Desktop.StartTimeout = timeout })).Spec.Containers[0].StartupProbe
		if probe.FailureThreshold != want || probe.PeriodSeconds != 1 {
			t.Errorf("%q: %d times every %d s, want %d", timeout, probe.FailureThreshold, probe.PeriodSeconds, want)
		}
	}
}

func TestAHomeIsKeptForTheRetentionTimeOfItsTemplate(t *testing.T) {
	cases := map[string]struct {
		home api.AssignedHome
		want string
	}{
		"a session's, deleted with it":      {api.AssignedHome{Mode: api.HomePerSession, Retention: api.RetentionDelete, RetentionTime: "1h"}, ""},
		"a session's, by default":           {api.AssignedHome{Mode: api.HomePerSession}, ""},
		"a session's, for a time":           {api.AssignedHome{Mode: api.HomePerSession, Retention: api.RetentionRetain, RetentionTime: "1h"}, "1h"},
		"a session's, without a time limit": {api.AssignedHome{Mode: api.HomePerSession, Retention: api.RetentionRetain}, ""},
		"a user's, for a time":              {api.AssignedHome{Mode: api.HomePerUser, Retention: api.RetentionRetain, RetentionTime: "720h"}, "720h"},
		"a user's, without a time limit":    {api.AssignedHome{Mode: api.HomePerUser}, ""},
	}
	for name, c := range cases {
		c.home.ClaimName = "claim"
		claim := Home(assignment(func(a *api.SessionAssignment) { a.Spec.Desktop.Home = c.home }))
		if got := claim.Annotations[api.AnnotationRetention]; got != c.want {
			t.Errorf("%s: kept for %q, want %q", name, got, c.want)
		}
	}
}
