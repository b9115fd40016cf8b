package assignment

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/secret"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
	"github.com/vdi-fleet/vdi-fleet/test/sessiontest"
)

var update = flag.Bool("update", false, "write the golden files again")

func fullTemplate() *v1alpha1.TemplateSpec {
	shared := resource.MustParse("1Gi")
	t := &v1alpha1.TemplateSpec{
		Image: "registry.example.com/dev:3", ImagePullPolicy: corev1.PullAlways,
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}, {Name: "of-the-member"}},
		Command:          []string{"/start"}, Args: []string{"--web"},
		Port: 6901, Protocol: v1alpha1.ProtocolHTTPS, Path: "/vnc.html",
		Env:            []v1alpha1.EnvVar{{Name: "LANG", Value: "C"}, {Name: "TZ", Value: "UTC"}},
		Files:          []v1alpha1.ConfigFile{{Name: "motd", Content: "welcome"}, {Name: "proxy", Content: "none"}},
		OverridableEnv: []string{"TZ"}, OverridableFiles: []string{"motd"},
		ConfigMountPath: "/etc/desk",
		Secrets: []v1alpha1.SecretUse{
			{Name: "registry", MountPath: "/run/registry"},
			{Name: "license", Env: []v1alpha1.SecretEnvVar{{Name: "LICENSE", Key: "key"}}},
		},
		Access:           v1alpha1.Access{PasswordEnv: "VNC_PW"},
		Activity:         v1alpha1.Activity{Path: "/activity"},
		StartTimeout:     "3m",
		SharedMemory:     &shared,
		RuntimeClassName: "kata", IngressClassName: "public", TLSSecretName: "wildcard", PriorityClassName: "desktops",
		NodeSelector:  map[string]string{"pool": "desktops"},
		Tolerations:   []corev1.Toleration{{Key: "desktops", Operator: corev1.TolerationOpExists}},
		NetworkPolicy: v1alpha1.TemplateNetworkPolicy{Mode: v1alpha1.NetworkIsolated, EgressCIDRs: []string{"10.20.0.0/16"}},
		Timeout:       v1alpha1.TimeLimit{Default: "8h", Max: "12h"},
		IdleTimeout:   v1alpha1.TimeLimit{Default: "30m"},
	}
	size := resource.MustParse("20Gi")
	t.Home = v1alpha1.TemplateHome{
		Mode: v1alpha1.HomePerUser, Size: &size, StorageClassName: "fast", AccessMode: corev1.ReadWriteOncePod, RetentionTime: "720h",
	}
	return t
}

// Whether a node may be added decides only whether the agent refuses the order: another hash would be
// another assignment.
func TestAnOrderMayAddANodeIfTheSessionIsPlacedOnANewOne(t *testing.T) {
	render := func(reason string) *v1alpha1.SessionAssignment {
		s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5), sessiontest.Condition(v1alpha1.ConditionScheduled, sessiontest.Yes, reason))
		return Render(s, &v1alpha1.TemplateSpec{Image: "browser:1"}, "eu.example.com", secret.Set{})
	}
	free, added := render(v1alpha1.ReasonPlaced), render(v1alpha1.ReasonPlacedOnNewNode)
	if free.MayAddNode || !added.MayAddNode {
		t.Errorf("placed in a free slot: %v, on a new node: %v", free.MayAddNode, added.MayAddNode)
	}
	if convert.SpecHash(&free.Spec) != convert.SpecHash(&added.Spec) {
		t.Error("the hashes differ")
	}
	if wire := convert.AssignmentToWire(added); !wire.GetMayAddNode() {
		t.Error("the order does not permit it")
	}
}

func TestRenderGolden(t *testing.T) {
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	s.Spec.Env = []v1alpha1.EnvVar{{Name: "TZ", Value: "Europe/Vienna"}, {Name: "LAUNCH_URL", Value: "https://example.com"}}
	s.Spec.Files = []v1alpha1.ConfigFile{{Name: "motd", Content: "hello"}}
	s.Status.TemplateRevision = "rev1"
	s.Status.TimeUsed, s.Status.Attempt = "1h30m0s", 2
	s.Status.Home = &v1alpha1.SessionHome{Name: "home-browser-x", ClusterName: "eu", ClusterUID: sessiontest.Here, ClaimName: "home-browser-second"}
	s.Status.Resources = corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi")}
	secrets := secret.Set{
		Access: &v1alpha1.SecretPayload{Name: "mine-access", Version: "v1", Data: map[string][]byte{"password": []byte("hidden")}},
		Distributed: map[string]v1alpha1.SecretPayload{
			"registry": {Name: "registry-of-mine", Version: "v2", Data: map[string][]byte{"auths": []byte("hidden")}},
		},
	}
	a := Render(s, fullTemplate(), "eu.example.com", secrets)
	if a.Payload != nil {
		t.Error("what is in the secrets is in the assignment before it is sent")
	}
	got, err := yaml.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	const path = "testdata/assignment.yaml"
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("differs from %s (-want +got), write it again with -update:\n%s", path, diff)
	}
}

func TestRenderHome(t *testing.T) {
	name := v1alpha1.AssignmentName("mine", "uid-session")
	user := v1alpha1.HomeName("desktops", "ann", "browser")
	for _, c := range []struct {
		requested v1alpha1.TemplateHome
		claim     string // of status.home
		want      v1alpha1.AssignedHome
	}{
		{want: v1alpha1.AssignedHome{Mode: v1alpha1.HomeNone}},
		{requested: v1alpha1.TemplateHome{Mode: v1alpha1.HomeNone}, want: v1alpha1.AssignedHome{Mode: v1alpha1.HomeNone}},
		{requested: v1alpha1.TemplateHome{Mode: v1alpha1.HomePerSession}, want: v1alpha1.AssignedHome{
			Mode: v1alpha1.HomePerSession, ClaimName: name, MountPath: "/home/user", Retention: v1alpha1.RetentionDelete}},
		{requested: v1alpha1.TemplateHome{Mode: v1alpha1.HomePerSession, Retention: v1alpha1.RetentionRetain, RetentionTime: "24h", MountPath: "/data"},
			want: v1alpha1.AssignedHome{Mode: v1alpha1.HomePerSession, ClaimName: name, MountPath: "/data", Retention: v1alpha1.RetentionRetain, RetentionTime: "24h"}},
		{requested: v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser}, want: v1alpha1.AssignedHome{
			Mode: v1alpha1.HomePerUser, ClaimName: user, MountPath: "/home/user", Retention: v1alpha1.RetentionRetain}},
		{requested: v1alpha1.TemplateHome{Mode: v1alpha1.HomePerUser}, claim: "second", want: v1alpha1.AssignedHome{
			Mode: v1alpha1.HomePerUser, ClaimName: "second", MountPath: "/home/user", Retention: v1alpha1.RetentionRetain}},
	} {
		s := sessiontest.With()
		if c.claim != "" {
			s.Status.Home = &v1alpha1.SessionHome{ClaimName: c.claim}
		}
		got := Render(s, &v1alpha1.TemplateSpec{Home: c.requested}, "x", secret.Set{}).Spec.Desktop.Home
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", c.requested, diff)
		}
	}
}

func TestMergedConfig(t *testing.T) {
	entry := func(name, value string) v1alpha1.EnvVar { return v1alpha1.EnvVar{Name: name, Value: value} }
	list := func(entries ...v1alpha1.EnvVar) []v1alpha1.EnvVar { return entries }
	for _, c := range []struct {
		name                    string
		template, session, want []v1alpha1.EnvVar
	}{
		{name: "neither has any"},
		{name: "the template's alone", template: list(entry("b", "1"), entry("a", "2")), want: list(entry("b", "1"), entry("a", "2"))},
		{name: "the session's alone", session: list(entry("b", "1"), entry("a", "2")), want: list(entry("b", "1"), entry("a", "2"))},
		{name: "the session's in the template's stead and place",
			template: list(entry("b", "1"), entry("a", "2")), session: list(entry("c", "3"), entry("b", "4")),
			want: list(entry("b", "4"), entry("a", "2"), entry("c", "3"))},
	} {
		got := merged(c.template, c.session, func(e v1alpha1.EnvVar) string { return e.Name })
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestRunState(t *testing.T) {
	suspended := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	suspended.Spec.OperatingMode = v1alpha1.ModeSuspended
	idle := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	idle.Status.Placement.Idle = true
	expired := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5), sessiontest.Condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonTimeExpired))
	for name, c := range map[string]struct {
		session *v1alpha1.VDISession
		want    v1alpha1.OperatingMode
	}{
		"not placed":                             {sessiontest.With(), v1alpha1.ModeRunning},
		"placed":                                 {sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5)), v1alpha1.ModeRunning},
		"idle":                                   {idle, v1alpha1.ModeSuspended},
		"to be suspended, and not idle yet":      {suspended, v1alpha1.ModeRunning},
		"its time is over, and not idle yet":     {expired, v1alpha1.ModeRunning},
		"its member sends no heartbeat any more": {sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5), sessiontest.Condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, v1alpha1.ReasonMemberUnreachable)), v1alpha1.ModeRunning},
	} {
		if got := runState(c.session); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

func TestAssignmentAffirmsTheLapseOfThePlacement(t *testing.T) {
	s := sessiontest.With(sessiontest.PlacedAt(sessiontest.Here, 5))
	s.Status.Placement.Lapse = 2
	if got := Render(s, &v1alpha1.TemplateSpec{}, "example.com", secret.Set{}).Spec.Lapse; got != 2 {
		t.Errorf("lapse %d is affirmed, want 2", got)
	}
}
