package render

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	api "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files again")

// assignment is what the hub sends for a small desktop; each case changes it.
func assignment(change ...func(*api.SessionAssignment)) *api.SessionAssignment {
	a := &api.SessionAssignment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "web-0123456789", UID: "assignment-uid"},
		Spec: api.SessionAssignmentSpec{
			Session:  api.SessionReference{Namespace: "team", Name: "web", UID: "session-uid"},
			Epoch:    1,
			User:     "jane@example.com",
			RunState: api.ModeRunning,
			Host:     "web-0123456789.eu.example.com",
			Desktop: api.Desktop{
				Image: "registry.example.com/browser:1",
				Port:  6080,
				Resources: corev1.ResourceList{
					corev1.ResourceCPU:    resource.MustParse("1"),
					corev1.ResourceMemory: resource.MustParse("2Gi"),
				},
			},
		},
	}
	for _, c := range change {
		c(a)
	}
	return a
}

func developer(a *api.SessionAssignment) {
	d := &a.Spec.Desktop
	d.Image = "registry.example.com/developer@sha256:" + strings.Repeat("ab", 32)
	d.ImagePullPolicy = corev1.PullIfNotPresent
	d.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	d.Env = []api.EnvVar{{Name: "LANG", Value: "C.UTF-8"}}
	d.IngressClassName = "nginx"
	size := resource.MustParse("50Gi")
	d.Home = api.AssignedHome{Mode: api.HomePerUser, ClaimName: "home-developer-abc", Size: &size, StorageClassName: "fast", MountPath: "/home/dev"}
}

func gpu(a *api.SessionAssignment) {
	d := &a.Spec.Desktop
	d.Protocol = api.ProtocolHTTPS
	d.Command = []string{"/usr/bin/desktop"}
	d.Args = []string{"--gl"}
	d.RuntimeClassName = "nvidia"
	d.NodeSelector = map[string]string{"gpu": "true"}
	d.Tolerations = []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	d.Resources["nvidia.com/gpu"] = resource.MustParse("1")
	d.Home = api.AssignedHome{Mode: api.HomePerSession, ClaimName: a.Name}
}

func longNames(a *api.SessionAssignment) {
	a.Spec.Session.Name = strings.Repeat("n", 253)
	a.Spec.Session.Namespace = strings.Repeat("s", 63)
	a.Name = api.AssignmentName(a.Spec.Session.Name, a.Spec.Session.UID)
	a.Spec.User = strings.Repeat("u", 253)
	a.Spec.Desktop.Resources = nil
}

func TestChildren(t *testing.T) {
	cases := map[string]func(*api.SessionAssignment){
		"browser":    func(*api.SessionAssignment) {},
		"developer":  developer,
		"gpu":        gpu,
		"long-names": longNames,
	}
	for name, change := range cases {
		t.Run(name, func(t *testing.T) {
			golden(t, name, documents(t, assignment(change), Network{Controller: "k8s.io/ingress-nginx"}))
		})
	}
	t.Run("guarded", func(t *testing.T) {
		golden(t, "guarded", documents(t, assignment(everything, fenced), Network{AgentNamespace: "vdi-system", LeasePort: 8082}))
	})
	t.Run("gated", func(t *testing.T) {
		golden(t, "gated", documents(t, assignment(developer, held), Network{AgentNamespace: "vdi-system", LeasePort: 8082}))
	})
	t.Run("gateway", func(t *testing.T) {
		golden(t, "gateway", documents(t, assignment(everything), Network{
			Gateway: &GatewayRef{Namespace: "gateways", Name: "public", Section: "https"}, AgentNamespace: "vdi-system",
			GatewayNamespaces: metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: "gateways"}},
		}))
	})
}

// everything is a desktop with all fields set.
func everything(a *api.SessionAssignment) {
	d := &a.Spec.Desktop
	a.Spec.Attempt = 2
	d.Env = []api.EnvVar{{Name: "LANG", Value: "C.UTF-8"}, {Name: "A_B", Value: ""}}
	d.Files = []api.ConfigFile{{Name: "policy.json", Content: "{}"}, {Name: "motd", Content: "welcome"}}
	d.ConfigMountPath = "/etc/opt/chrome"
	d.Access = api.AssignedAccess{SecretName: a.Name + "-access", PasswordEnv: "VNC_PW"}
	d.Secrets = []api.SecretUse{
		{Name: "license", MountPath: "/etc/license"},
		{Name: "proxy", Env: []api.SecretEnvVar{{Name: "PROXY_USER", Key: "user"}, {Name: "PROXY_PASSWORD", Key: "password"}}},
	}
	shared := resource.MustParse("1500Mi")
	d.SharedMemory, d.PriorityClassName, d.StartTimeout = &shared, "desktops", "90s"
	d.Activity.Path = "/.well-known/vdi/activity"
	d.NetworkPolicy = api.TemplateNetworkPolicy{Mode: api.NetworkIsolated, EgressCIDRs: []string{"10.20.0.0/16"}}
	size := resource.MustParse("5Gi")
	d.Home = api.AssignedHome{Mode: api.HomePerSession, ClaimName: a.Name, Size: &size, AccessMode: corev1.ReadWriteOncePod,
		Retention: api.RetentionRetain, RetentionTime: "24h"}
}

// TestIngressesOfEachController checks the annotations that keep websockets open.
func TestIngressesOfEachController(t *testing.T) {
	var out bytes.Buffer
	for _, controller := range []string{"k8s.io/ingress-nginx", "nginx.org/ingress-controller", "traefik.io/ingress-controller", "haproxy.org/ingress-controller/prod", "haproxy-ingress.github.io/controller", "ingress.k8s.aws/alb", "example.com/unknown"} {
		for _, protocol := range []api.Protocol{api.ProtocolHTTP, api.ProtocolHTTPS} {
			a := assignment(func(a *api.SessionAssignment) { a.Spec.Desktop.Protocol = protocol })
			ing := Ingress(a, Network{Controller: controller, TLSSecretName: "wildcard"})
			text, err := yaml.Marshal(map[string]any{controller + " " + string(protocol): map[string]any{"annotations": ing.Annotations, "tls": ing.Spec.TLS}})
			if err != nil {
				t.Fatal(err)
			}
			out.Write(text)
		}
	}
	golden(t, "controllers", out.Bytes())
}

func TestTheAssignmentsCertificateGoesBeforeTheMembers(t *testing.T) {
	a := assignment(func(a *api.SessionAssignment) { a.Spec.Desktop.TLSSecretName = "own" })
	if got := Ingress(a, Network{TLSSecretName: "wildcard"}).Spec.TLS[0].SecretName; got != "own" {
		t.Errorf("the certificate is %s", got)
	}
}

func TestAnOpenDesktopHasNoNetworkPolicy(t *testing.T) {
	a := assignment(func(a *api.SessionAssignment) { a.Spec.Desktop.NetworkPolicy.Mode = api.NetworkOpen })
	if NetworkPolicy(a, Network{}) != nil {
		t.Error("it has one")
	}
}

func TestConfigIsThereOnlyIfThereIsAny(t *testing.T) {
	if ConfigMap(assignment()) != nil {
		t.Error("a desktop with neither variables nor files has a ConfigMap")
	}
}

func documents(t *testing.T, a *api.SessionAssignment, n Network) []byte {
	t.Helper()
	objects := []any{Pod(a), Service(a)}
	switch a.Spec.FailoverMode {
	case api.FailoverFence:
		objects[0] = GuardedPod(a, testGuard)
	case api.FailoverHold:
		objects[0] = GatedPod(a, testGuard)
	}
	if n.Gateway != nil {
		objects = append(objects, HTTPRoute(a, n))
	} else {
		objects = append(objects, Ingress(a, n))
	}
	objects = append(objects, DisruptionBudget(a.Namespace))
	if policy := NetworkPolicy(a, n); policy != nil {
		Isolate(objects[0].(*corev1.Pod), policy)
		objects = append(objects, policy)
	}
	if config := ConfigMap(a); config != nil {
		objects = append([]any{config}, objects...)
	}
	if home := Home(a); home != nil {
		objects = append([]any{home}, objects...)
	}
	var texts [][]byte
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	return bytes.Join(texts, []byte("---\n"))
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".yaml")
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s (-want +got), see -update:\n%s", path, d)
	}
}

func TestHomes(t *testing.T) {
	home := func(mode api.HomeMode) *corev1.PersistentVolumeClaim {
		return Home(assignment(func(a *api.SessionAssignment) {
			a.Spec.Desktop.Home = api.AssignedHome{Mode: mode, ClaimName: "claim"}
		}))
	}
	if home(api.HomeNone) != nil || home("") != nil {
		t.Error("a desktop without a home got a claim")
	}
	for _, mode := range []api.HomeMode{api.HomePerSession, api.HomePerUser} {
		claim := home(mode)
		if len(claim.OwnerReferences) != 0 {
			t.Errorf("a %s home must have no owner, it has %v", mode, claim.OwnerReferences)
		}
		if got := claim.Spec.Resources.Requests.Storage().String(); got != "10Gi" {
			t.Errorf("a home without a size is of %s, want 10Gi", got)
		}
		if claim.Labels[LabelHomeMode] != string(mode) {
			t.Errorf("label %s = %q, want %s", LabelHomeMode, claim.Labels[LabelHomeMode], mode)
		}
	}
	if _, named := home(api.HomePerUser).Labels[api.LabelAssignment]; named {
		t.Error("a PerUser claim names one assignment: two sessions of a user would fight for it")
	}
}

func TestHomeVariableIsTheTemplatesIfItSetsOne(t *testing.T) {
	pod := Pod(assignment(developer, func(a *api.SessionAssignment) {
		a.Spec.Desktop.Env = []api.EnvVar{{Name: "HOME", Value: "/elsewhere"}}
	}))
	if env := pod.Spec.Containers[0].Env; len(env) != 1 || env[0].Value != "/elsewhere" {
		t.Errorf("HOME is not the template's alone: %v", env)
	}
}

func TestDesktopHashFollowsTheDesktopAlone(t *testing.T) {
	base := DesktopHash(assignment())
	same := assignment(func(a *api.SessionAssignment) {
		a.Spec.Epoch, a.Spec.Timeout, a.Spec.RunState, a.Name = 7, "9h", api.ModeSuspended, "other"
		a.Spec.Desktop.Resources[corev1.ResourceCPU] = resource.MustParse("1000m")
	})
	if got := DesktopHash(same); got != base {
		t.Errorf("the hash changed with what is not the desktop's: %s, was %s", got, base)
	}
	full := DesktopHash(assignment(everything))
	for what, change := range map[string]func(*api.SessionAssignment){
		"the content of a file": func(a *api.SessionAssignment) { a.Spec.Desktop.Files[0].Content = "other" },
		"one file more": func(a *api.SessionAssignment) {
			a.Spec.Desktop.Files = append(a.Spec.Desktop.Files, api.ConfigFile{Name: "x"})
		},
		"the size of its home":   func(a *api.SessionAssignment) { a.Spec.Desktop.Home.Size = nil },
		"a certificate":          func(a *api.SessionAssignment) { a.Spec.Desktop.TLSSecretName = "other" },
		"what it may connect to": func(a *api.SessionAssignment) { a.Spec.Desktop.NetworkPolicy.Mode = api.NetworkOpen },
		"the version of a secret": func(a *api.SessionAssignment) {
			a.Spec.Secrets = []api.SecretReference{{Name: "license", Version: "2"}}
		},
	} {
		if DesktopHash(assignment(everything, change)) != full {
			t.Errorf("the hash changed with %s, which reaches a desktop that runs", what)
		}
	}
	for what, change := range map[string]func(*api.SessionAssignment){
		"another image":    func(a *api.SessionAssignment) { a.Spec.Desktop.Image += "2" },
		"another variable": func(a *api.SessionAssignment) { a.Spec.Desktop.Env[0].Value = "de_DE" },
		"no files":         func(a *api.SessionAssignment) { a.Spec.Desktop.Files = nil },
		"more memory": func(a *api.SessionAssignment) {
			a.Spec.Desktop.Resources[corev1.ResourceMemory] = resource.MustParse("3Gi")
		},
	} {
		if DesktopHash(assignment(everything, change)) == full {
			t.Errorf("%s has the same hash", what)
		}
	}
}

func TestNothingOfTheAssignmentIsShared(t *testing.T) {
	a := assignment(gpu, everything)
	before := a.DeepCopy()
	pod := Pod(a)
	pod.Spec.Containers[0].Resources.Limits["x"] = resource.MustParse("1")
	pod.Spec.NodeSelector["x"] = "y"
	pod.Spec.Tolerations[0].Key = "x"
	pod.Spec.Containers[0].Args[0] = "x"
	if d := cmp.Diff(before, a); d != "" {
		t.Errorf("changing the Pod changed the assignment:\n%s", d)
	}
	if _, leaked := pod.Spec.Containers[0].Resources.Requests["x"]; leaked {
		t.Error("requests and limits are one map")
	}
}

// Kubernetes accepts the labels and annotations of children of any session.
func TestMarksAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := assignment(gpu, func(a *api.SessionAssignment) {
			a.Spec.Session.Name = rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?`).Draw(t, "session")
			a.Name = api.AssignmentName(a.Spec.Session.Name, a.Spec.Session.UID)
			a.Spec.Desktop.Home.ClaimName = a.Name
			a.Spec.User = rapid.StringN(1, 253, 253).Draw(t, "user")
		})
		metas := []metav1.ObjectMeta{Home(a).ObjectMeta, Pod(a).ObjectMeta, Service(a).ObjectMeta, Ingress(a, Network{}).ObjectMeta, DisruptionBudget(a.Namespace).ObjectMeta, NetworkPolicy(a, Network{}).ObjectMeta}
		for _, m := range metas {
			if msgs := validation.IsDNS1035Label(m.Name); len(msgs) > 0 {
				t.Errorf("name %q: %v", m.Name, msgs)
			}
			for k, v := range m.Labels {
				if msgs := append(validation.IsQualifiedName(k), validation.IsValidLabelValue(v)...); len(msgs) > 0 {
					t.Errorf("label %s=%q: %v", k, v, msgs)
				}
			}
			for k := range m.Annotations {
				if msgs := validation.IsQualifiedName(k); len(msgs) > 0 {
					t.Errorf("annotation %s: %v", k, msgs)
				}
			}
		}
	})
}

// Shared memory is charged to the container.
func TestSharedMemoryStaysWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		memory := resource.NewQuantity(rapid.Int64Range(2, 1<<44).Draw(t, "memory"), resource.BinarySI)
		d := &api.Desktop{Resources: corev1.ResourceList{corev1.ResourceMemory: *memory}}
		if size := shmSize(d); size.Cmp(*memory) >= 0 || size.Sign() <= 0 {
			t.Errorf("of %s memory %s are shared memory", memory, size)
		}
		d.SharedMemory = resource.NewQuantity(rapid.Int64Range(1, 1<<45).Draw(t, "requested"), resource.BinarySI)
		if size := shmSize(d); size.Cmp(*memory) > 0 || size.Cmp(*d.SharedMemory) > 0 {
			t.Errorf("of %s memory %s are shared memory, requested %s", memory, size, d.SharedMemory)
		}
	})
}
