package restriction

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// violations is what settings report of an assignment.
func violations(s Settings, change func(*v1alpha1.SessionAssignmentSpec)) string {
	spec := &v1alpha1.SessionAssignmentSpec{Host: "a.eu.example.com", Desktop: v1alpha1.Desktop{Image: "kasmweb/chrome:1"}}
	if change != nil {
		change(spec)
	}
	return Message(s.Assignment(spec))
}

func defaults(changes ...func(*Settings)) Settings {
	s := Defaults()
	for _, change := range changes {
		change(&s)
	}
	return s
}

func TestHosts(t *testing.T) {
	for _, tc := range []struct {
		host     string
		suffixes []string
		allowed  bool
	}{
		{"a.example.com", nil, true},
		{"", nil, true},
		{"a.example.com", []string{"example.com"}, true},
		{"a.b.example.com", []string{"other.org", ".example.com"}, true},
		{"example.com", []string{"example.com"}, false}, // the administrator's own site
		{"a.badexample.com", []string{"example.com"}, false},
		{"a.example.com.evil.org", []string{"example.com"}, false},
		{"", []string{"example.com"}, false},
	} {
		got := violations(defaults(func(s *Settings) { s.HostSuffixes = tc.suffixes }), func(a *v1alpha1.SessionAssignmentSpec) { a.Host = tc.host })
		if (got == "") != tc.allowed {
			t.Errorf("%q under %v: %q", tc.host, tc.suffixes, got)
		}
	}
}

func TestImages(t *testing.T) {
	for _, tc := range []struct {
		image, prefix string
		allowed       bool
	}{
		{"registry.example.com/desktops/firefox:1", "registry.example.com/desktops/", true},
		{"registry.example.com/desktops/firefox:1", "registry.example.com/desktops", true},
		{"registry.example.com/desktops/firefox@sha256:aa", "registry.example.com/desktops/firefox", true},
		{"registry.example.com/desktops/firefox", "registry.example.com", true},
		{"registry.example.com:5000/firefox", "registry.example.com:5000", true},
		{"registry.example.com:5000/firefox", "registry.example.com", false},
		{"registry.example.com.evil.org/desktops/firefox", "registry.example.com", false},
		{"registry.example.com/desktops-evil/firefox", "registry.example.com/desktops", false},
		{"registry.example.com/other/firefox", "registry.example.com/desktops/", false},
		{"kasmweb/chrome:1", "kasmweb/", true},
		{"kasmweb/chrome:1", "docker.io/kasmweb", true},
		{"docker.io/kasmweb/chrome:1", "kasmweb/chrome", true},
		{"ubuntu", "ubuntu", true},
		{"ubuntu:24.04", "docker.io/library/ubuntu", true},
		{"evil/registry.example.com/x", "registry.example.com", false},
		{"kasmweb/chrome:1", "registry.example.com/kasmweb/", false},
		{"localhost/x", "localhost/", true},
		{"", "kasmweb/", false},
	} {
		got := violations(defaults(func(s *Settings) { s.ImagePrefixes = []string{"other/", tc.prefix} }),
			func(a *v1alpha1.SessionAssignmentSpec) { a.Desktop.Image = tc.image })
		if (got == "") != tc.allowed {
			t.Errorf("%q of %q: %q", tc.image, tc.prefix, got)
		}
	}
}

func TestClasses(t *testing.T) {
	for _, tc := range []struct {
		allowed []string
		name    string
		want    bool
	}{
		{nil, "any", true}, {nil, "", true},
		{[]string{"gvisor"}, "gvisor", true}, {[]string{"gvisor"}, "kata", false}, {[]string{"gvisor"}, "", false},
		{[]string{"gvisor", Unnamed}, "", true},
	} {
		for kind, change := range map[string]func(*Settings, *v1alpha1.SessionAssignmentSpec){
			"runtime": func(s *Settings, a *v1alpha1.SessionAssignmentSpec) {
				s.RuntimeClasses, a.Desktop.RuntimeClassName = tc.allowed, tc.name
			},
			"priority": func(s *Settings, a *v1alpha1.SessionAssignmentSpec) {
				s.PriorityClasses, a.Desktop.PriorityClassName = tc.allowed, tc.name
			},
		} {
			s, spec := Defaults(), &v1alpha1.SessionAssignmentSpec{}
			change(&s, spec)
			got := Message(s.Assignment(spec))
			if (got == "") != tc.want || got != "" && !strings.Contains(got, kind+" class") {
				t.Errorf("%s class %q of %v: %q", kind, tc.name, tc.allowed, got)
			}
		}
	}
}

func TestTolerationsOfTheControlPlane(t *testing.T) {
	for _, tc := range []struct {
		toleration corev1.Toleration
		denied     bool
	}{
		{corev1.Toleration{Key: "gpu", Operator: corev1.TolerationOpExists}, false},
		{corev1.Toleration{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists}, true},
		{corev1.Toleration{Key: "node-role.kubernetes.io/master", Effect: corev1.TaintEffectNoSchedule}, true},
		{corev1.Toleration{Key: "node-role.kubernetes.io/etcd", Effect: corev1.TaintEffectNoExecute}, true},
		{corev1.Toleration{Operator: corev1.TolerationOpExists}, true},
		{corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}, true},
	} {
		request := func(a *v1alpha1.SessionAssignmentSpec) { a.Desktop.Tolerations = []corev1.Toleration{tc.toleration} }
		if got := violations(Defaults(), request); (got != "") != tc.denied {
			t.Errorf("%v by default: %q", tc.toleration, got)
		}
		if got := violations(defaults(func(s *Settings) { s.ControlPlane = true }), request); got != "" {
			t.Errorf("%v where it is allowed: %q", tc.toleration, got)
		}
	}
}

func TestNetworks(t *testing.T) {
	const byDefault, private, linkLocal, never = 1, 2, 3, 4
	for _, tc := range []struct {
		cidr   string
		denied int
	}{
		{"1.1.1.1/32", never}, {"2606:4700::/32", never}, {"169.254.20.10/32", never},
		{"10.1.0.0/16", private}, {"fd12::/48", private}, {"100.64.0.0/10", private}, {"127.0.0.1/32", private},
		{"169.254.169.254/32", linkLocal}, {"169.254.0.0/16", linkLocal}, {"168.0.0.0/6", linkLocal},
		{"0.0.0.0/0", linkLocal}, {"::/0", linkLocal}, {"fe80::1/128", linkLocal},
		{"::ffff:169.254.169.254/128", linkLocal}, {"64:ff9b::a9fe:a9fe/128", linkLocal}, {"2002:a9fe:a9fe::/48", linkLocal},
		{"fd00:ec2::254/128", linkLocal}, {"169.254.20.10/31", linkLocal}, {"169.254.20.11/32", linkLocal},
		{"everywhere", byDefault}, {"10.0.0.1", byDefault},
	} {
		request := func(a *v1alpha1.SessionAssignmentSpec) {
			a.Desktop.NetworkPolicy.EgressCIDRs = []string{"1.0.0.1/32", tc.cidr}
		}
		isolated := defaults(func(s *Settings) { s.OpenNetwork, s.PrivateEgress, s.LinkLocalEgress = false, false, true })
		all := defaults(func(s *Settings) { s.LinkLocalEgress = true })
		for name, c := range map[string]struct {
			settings Settings
			denied   bool
		}{
			"by default":            {Defaults(), tc.denied == byDefault || tc.denied == linkLocal},
			"without private ones":  {isolated, tc.denied != never},
			"where all are allowed": {all, tc.denied == byDefault},
		} {
			if got := violations(c.settings, request); (got != "") != c.denied {
				t.Errorf("%s %s: %q", tc.cidr, name, got)
			}
		}
	}
	open := func(a *v1alpha1.SessionAssignmentSpec) { a.Desktop.NetworkPolicy.Mode = v1alpha1.NetworkOpen }
	if got := violations(Defaults(), open); got != "" {
		t.Errorf("mode Open by default: %s", got)
	}
	if got := violations(Settings{}, open); !strings.Contains(got, "--allow-open-network") {
		t.Errorf("mode Open where it is not allowed: %q", got)
	}
}

func TestViolationsAreAllNamed(t *testing.T) {
	got := violations(Settings{HostSuffixes: []string{"a.org", "b.org", "c.org", "d.org", "e.org", "f.org"}}, func(a *v1alpha1.SessionAssignmentSpec) {
		a.Desktop.NetworkPolicy.Mode = v1alpha1.NetworkOpen
	})
	for _, want := range []string{"Open", "a.eu.example.com", "e.org and 1 more", "spec.ingressDomain", "--allowed-host-suffixes"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not contain %q", got, want)
		}
	}
}

func TestFlags(t *testing.T) {
	read := func(args ...string) (Settings, error) {
		var s Settings
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.AddFlags(fs)
		if err := fs.Parse(args); err != nil {
			t.Fatal(err)
		}
		return s, s.Validate()
	}
	s, err := read()
	if err != nil || s.OpenNetwork != Defaults().OpenNetwork || s.PrivateEgress != Defaults().PrivateEgress || s.LinkLocalEgress || s.ControlPlane {
		t.Errorf("without flags %+v, %v", s, err)
	}
	if _, err := read("--allowed-host-suffixes=eu.example.com,.us.example.com", "--allowed-image-prefixes=kasmweb/,registry.example.com:5000/a",
		"--allowed-runtime-classes=-,gvisor", "--allowed-priority-classes=desktops", "--allow-open-network=false", "--allow-private-egress=false"); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{
		"--allowed-host-suffixes=*.example.com", "--allowed-image-prefixes=https://registry.example.com", "--allowed-image-prefixes=a b",
		"--allowed-runtime-classes=G_Visor", "--allowed-priority-classes=A", "--allow-private-egress=false",
		"--allowed-host-suffixes=" + strings.Repeat("a.example.com,", 64) + "a.example.com",
	} {
		flag, _, _ := strings.Cut(wrong, "=")
		if _, err := read(wrong); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestNamespacesThatHoldNoSessions(t *testing.T) {
	s := Settings{AgentNamespace: "vdi-system"}
	for namespace, want := range map[string]bool{"desktops": true, "kube-system": false, "kube-public": false, "vdi-system": false} {
		if s.CanBeAdmitted(namespace) != want {
			t.Errorf("%s: %t", namespace, !want)
		}
	}
}
