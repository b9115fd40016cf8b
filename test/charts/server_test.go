package charts

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// restricted are the labels with which the API server rejects Pods that do not meet the
// profile, and warns of objects that would create such Pods.
var restricted = map[string]string{
	"pod-security.kubernetes.io/enforce": "restricted",
	"pod-security.kubernetes.io/warn":    "restricted",
}

// server is an API server with the third-party kinds that the charts may use.
type server struct {
	*testing.T
	*harness.ControlPlane
}

// TestOnARealAPIServer shares one server: starting it takes longer than all else.
func TestOnARealAPIServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	plane, err := harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Name: "charts", APIOnly: true, CRDDirs: []string{"testdata/crds"},
		Namespaces: map[string]map[string]string{namespace: restricted, "desktops": nil, "lab": nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, of := range []struct {
		name string
		test func(server)
	}{
		{"it takes all that Helm renders", (server).takesCharts},
		{"the Pods meet the profile restricted", (server).takesPods},
		{"make deploys and removes the hub", (server).deploys},
		{"Helm installs and upgrades and uninstalls and the script leaves nothing", (server).lifecycle},
	} {
		t.Run(of.name, func(t *testing.T) { of.test(server{t, plane}) })
	}
}

// helm runs helm against the server.
func (s server) helm(args ...string) string {
	s.Helper()
	out, err := helm(s.T, append(args, "--kubeconfig", s.Kubeconfig, "--namespace", namespace)...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// lifecycle installs both charts in one cluster, as for a hub that is a member too.
func (s server) lifecycle() {
	if testing.Short() {
		s.Skip("each of a dozen commands of helm takes seconds")
	}
	for _, release := range []struct {
		command, name string
		variant       int
		more          []string
	}{
		{"install", "hub", hubDefaults, nil},
		{"install", "agent", agentJoins, nil},
		{"upgrade", "hub", hubAll, []string{"--set", "crds.keep=true"}},
		{"upgrade", "agent", agentAll, []string{"--set", "crds.keep=true,priorityClass.name=vdi-agent,priorityClass.value=1000000"}},
		{"upgrade", "hub", hubLeast, []string{"--dry-run=server"}},
		{"upgrade", "agent", agentDefaults, []string{"--dry-run=server", "--reset-values"}},
		{"upgrade", "agent", agentLeast, []string{"--dry-run=server"}},
	} {
		v := variants[release.variant]
		out := s.helm(slices.Concat([]string{release.command, release.name, v.chart}, v.args, release.more)...)
		_, notes, _ := strings.Cut(out, "\nNOTES:\n")
		expectGolden(s.T, v.name+".notes.txt", notes)
		if release.command == "install" && release.name == "hub" {
			s.capsUsersAt("10")
		}
	}
	s.defaultPolicy()
	if left := s.left(); !slices.Contains(left, "Deployment/vdi-agent") || !slices.Contains(left, "CustomResourceDefinition/vdisessions.vdi.kasm.io") {
		s.Errorf("these are there: %q", left)
	}
	s.helm("uninstall", "hub")
	s.helm("uninstall", "agent")
	if left := s.left(); len(left) != 8 || slices.ContainsFunc(left, func(name string) bool { return !strings.HasPrefix(name, "CustomResourceDefinition/") }) {
		s.Errorf("these are left: %q", left)
	}
	if left := s.kubectl("get", "placementpolicies", "-o", "name"); left != "" {
		s.Errorf("the default policy was part of the release, and is left: %q", left)
	}
	// Install again over the CRDs that were kept, as in docs/installation.md; then remove all.
	s.helm(append([]string{"install", "hub", hubChart}, hubRequired...)...)
	s.capsUsersAt("10")
	uid := []string{"get", "placementpolicy", "vdi-default", "-o", "jsonpath={.metadata.uid}"}
	before := s.kubectl(uid...)
	s.helm(slices.Concat([]string{"upgrade", "hub", hubChart}, hubRequired, []string{"--set", "defaultPolicy.sessionsPerUser=20", "--set", consoleValues})...)
	if s.capsUsersAt("20"); s.kubectl(uid...) != before {
		s.Error("the upgrade created the default policy again: while it was gone, nothing capped the sessions of a user")
	}
	s.join()
	s.apply("deploy/samples/namespace.yaml", "deploy/samples/templates.yaml")
	inSystem := []string{"get", "role,rolebinding", "-n", "kube-system", "-l", "app.kubernetes.io/name=vdi-agent", "-o", "name"}
	if got := strings.Fields(s.kubectl(inSystem...)); len(got) != 2 {
		s.Errorf("with node groups the agent has these in kube-system: %q", got)
	}
	if out := s.uninstall("hub"); !strings.Contains(out, "namespace vdi-system is kept") {
		s.Errorf("the agent is still there: %s", out)
	}
	if left := s.left(); slices.ContainsFunc(left, func(name string) bool {
		return strings.Contains(name, "/vdi-hub") || strings.Contains(name, "/vdi-console")
	}) || !slices.Contains(left, "Deployment/vdi-agent") {
		s.Errorf("without the hub these are left: %q", left)
	}
	s.uninstall("member", "--homes")
	if left := append(s.left(), strings.Fields(s.kubectl(inSystem...))...); len(left) != 0 {
		s.Errorf("these are left: %q", left)
	}
}

// consoleValues are values of a console with all objects that it may have.
const consoleValues = "console.enabled=true,console.url=https://desktops.example.com,console.namespaces={desktops}," +
	"console.users.secretName=vdi-console-users,console.ingress.enabled=true,console.impersonation=legacy"

// defaultPolicy checks the default policy across upgrades with other values, and leaves it in
// the release.
func (s server) defaultPolicy() {
	s.Helper()
	all := slices.Concat([]string{"upgrade", "hub", hubChart}, variants[hubAll].args, []string{"--set", "crds.keep=true"})
	for _, step := range []struct{ perUser, want string }{{"25", "25"}, {"0", ""}, {"0", ""}, {"30", "30"}, {"30", "30"}} {
		s.helm(append(all, "--set", "defaultPolicy.sessionsPerUser="+step.perUser)...)
		s.capsUsersAt(step.want)
	}
}

// capsUsersAt expects a default policy with a cap per user, with none if want is empty.
func (s server) capsUsersAt(want string) {
	s.Helper()
	got := s.kubectl("get", "placementpolicy", "vdi-default", "-o", "jsonpath={.spec.precedence} {.spec.match} {.spec.sessionCaps.perUser}")
	if got != "-1000  "+want {
		s.Errorf("precedence, match and cap of the default policy are %q, want the cap %q", got, want)
	}
}

// uninstall runs the script that docs/installation.md names.
func (s server) uninstall(args ...string) string {
	s.Helper()
	cmd := exec.CommandContext(s.Context(), filepath.Join(root, "deploy/uninstall.sh"), append(args, "--kubeconfig", s.Kubeconfig)...)
	cmd.Env = append(os.Environ(), "HOME="+s.Dir, "WAIT=60", "PATH="+filepath.Dir(binary(s.T, "kubectl", "controlplane"))+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func (s server) apply(files ...string) {
	s.Helper()
	for _, file := range files {
		s.kubectl("apply", "--server-side", "-f", filepath.Join(root, file))
	}
}

// left returns the remaining objects of the fleet, by kind and name.
func (s server) left() []string {
	s.Helper()
	kinds := "crd,clusterrole,clusterrolebinding,role,rolebinding,serviceaccount,service,deployment,poddisruptionbudget," +
		"networkpolicy,ingress,priorityclass,validatingadmissionpolicy,validatingadmissionpolicybinding,mutatingadmissionpolicy," +
		"mutatingadmissionpolicybinding,secret,configmap,servicemonitor,prometheusrule,certificate"
	var names []string
	for _, object := range objects(s.T, s.kubectl("get", kinds, "-n", namespace, "-l", "app.kubernetes.io/part-of=vdi-fleet", "-o", "yaml")) {
		if err := object.EachListItem(func(item runtime.Object) error {
			one := item.(*unstructured.Unstructured)
			names = append(names, one.GetKind()+"/"+one.GetName())
			return nil
		}); err != nil {
			s.Fatal(err)
		}
	}
	return names
}

func (s server) kubectl(args ...string) string {
	s.Helper()
	out, err := s.Kubectl(s.Context(), args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// takes sends a manifest to the server in a dry run with strict validation.
func (s server) takes(name, manifest string) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "manifest.yaml")
	write(s.T, file, manifest)
	_, err := s.Kubectl(s.Context(), "apply", "--server-side", "--dry-run=server", "--validate=strict", "--force-conflicts",
		"--warnings-as-errors", "-f", file) // each object names its namespace
	if err != nil {
		s.Errorf("%s: %v", name, err)
	}
}

func (s server) takesCharts() {
	for _, v := range variants {
		s.takes(v.name, withoutDefaultPolicy(s.T, v.manifest(s.T)))
	}
}

// withoutDefaultPolicy omits the hook that needs the CRDs of the same manifest.
func withoutDefaultPolicy(t *testing.T, manifest string) string {
	t.Helper()
	var kept strings.Builder
	for _, document := range strings.Split(manifest, "\n---\n") {
		if !strings.Contains(document, "\nkind: PlacementPolicy\n") {
			kept.WriteString("\n---\n" + document)
		}
	}
	return kept.String()
}

// deploys runs the targets of the Makefile that install without Helm.
func (s server) deploys() {
	made := func(target string) []string {
		s.Helper()
		cmd := exec.CommandContext(s.Context(), "make", "--no-print-directory", target, "KUBECTL=bin/kubectl", "HUB_IMG=registry.example.com:5000/hub:v1")
		cmd.Dir, cmd.Env = root, append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "HOME="+s.Dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			s.Fatalf("make %s: %v: %s", target, err, out)
		}
		return s.installed()
	}
	installed := made("install")
	for _, name := range []string{"CustomResourceDefinition/vdisessions.vdi.kasm.io", "ClusterRole/vdi-operator", "ValidatingAdmissionPolicy/vdi-session-user"} {
		if !slices.Contains(installed, name) {
			s.Errorf("make install has installed no %s, only %q", name, installed)
		}
	}
	deployed := made("deploy")
	for _, name := range []string{"Deployment/vdi-hub", "ClusterRole/vdi-hub", "Role/vdi-hub", "Service/vdi-hub", "MutatingAdmissionPolicy/vdi-session-finalizer"} {
		if !slices.Contains(deployed, name) || slices.Contains(installed, name) {
			s.Errorf("make deploy has not deployed %s: before %q, after %q", name, installed, deployed)
		}
	}
	if image := s.kubectl("-n", namespace, "get", "deployment", "vdi-hub", "-o", "jsonpath={.spec.template.spec.containers[0].image}"); image != "registry.example.com:5000/hub:v1" {
		s.Errorf("the hub's image is %s", image)
	}
	if diff := cmp.Diff(installed, made("undeploy")); diff != "" {
		s.Errorf("make undeploy leaves something else than make install installs (-want +got):\n%s", diff)
	}
	// As in deploy/uninstall.sh: the API server is slow to delete kinds that it never listed.
	for _, name := range installed {
		if crd, is := strings.CutPrefix(name, "CustomResourceDefinition/"); is {
			s.kubectl("get", crd, "--all-namespaces")
		}
	}
	for _, files := range []string{"admission", "crds", "users.yaml"} {
		s.kubectl("delete", "--ignore-not-found", "-f", filepath.Join(hubChart, "files", files))
	}
}

// installed returns the objects of a hub in the cluster, by kind and name.
func (s server) installed() []string {
	s.Helper()
	kinds := "crd,clusterrole,clusterrolebinding,role,rolebinding,serviceaccount,service,deployment,poddisruptionbudget," +
		"priorityclass,validatingadmissionpolicy,validatingadmissionpolicybinding,mutatingadmissionpolicy,mutatingadmissionpolicybinding"
	var names []string
	for name := range bare(objects(s.T, strings.ReplaceAll(s.kubectl("get", kinds, "--all-namespaces", "-o",
		"go-template={{range .items}}---\nkind: {{.kind}}\nmetadata: {name: '{{.metadata.name}}'}\n{{end}}"), "\\n", "\n"))) {
		if _, own, _ := strings.Cut(name, "/"); strings.HasPrefix(own, "vdi-") || strings.HasSuffix(own, ".vdi.kasm.io") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (s server) takesPods() {
	for _, v := range variants {
		d := deploymentOf(s.T, v)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: v.name, Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec}
		pod.Spec.PriorityClassName = "" // the chart that creates it is not installed here
		pods := s.Client.CoreV1().Pods(namespace)
		dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		if _, err := pods.Create(s.Context(), pod, dry); err != nil {
			s.Errorf("%s: %v", v.name, err)
		}
		pod.Spec.SecurityContext.RunAsNonRoot = nil
		if _, err := pods.Create(s.Context(), pod, dry); err == nil || !strings.Contains(err.Error(), "PodSecurity") {
			s.Errorf("nothing enforces the profile: %v", err)
		}
	}
}

// join joins a member as in docs/installation.md: the agent's chart requires what `kubectl
// vdi join` prints, and no release contains its token.
func (s server) join() {
	s.Helper()
	hash := "sha256:" + strings.Repeat("0a", 32)
	cmd := exec.CommandContext(s.Context(), binary(s.T, "kubectl-vdi", "build"), "join", "eu-west", "--kubeconfig", s.Kubeconfig,
		"--region", "eu-west", "--ingress-domain", "eu.example.com", "--hub", "hub.example.com:8443", "--ca-hash", hash, "-o", "manifest")
	out, err := cmd.Output()
	if err != nil {
		s.Fatal(err)
	}
	file := filepath.Join(s.TempDir(), "join.yaml")
	write(s.T, file, string(out))
	s.kubectl("apply", "--server-side", "-f", file)
	s.helm("install", "agent", agentChart, "--set", "nodeGroups.enabled=true,buffers.enabled=true,door.enabled=true")
	secret, err := s.Client.CoreV1().Secrets(namespace).Get(s.Context(), v1alpha1.AgentBootstrap, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	got := map[string]string{}
	for key, value := range secret.Data {
		got[key] = string(value)
	}
	token := got[v1alpha1.BootstrapToken]
	if _, ok := v1alpha1.JoinTokenID(token); !ok {
		s.Errorf("the agent's Secret has no join token, but %q", token)
	}
	delete(got, v1alpha1.BootstrapToken)
	releases, err := s.Client.CoreV1().Secrets(namespace).List(s.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil || len(releases.Items) == 0 {
		s.Fatalf("%d Secrets of releases: %v", len(releases.Items), err)
	}
	for _, release := range releases.Items {
		if contains(s.T, release.Data["release"], token) {
			s.Errorf("the token is in %s", release.Name)
		}
	}
	want := map[string]string{
		v1alpha1.BootstrapMember: "eu-west", v1alpha1.BootstrapHub: "hub.example.com:8443", v1alpha1.BootstrapServerName: "hub.example.com",
		v1alpha1.BootstrapCAHash: hash,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("the agent's Secret (-want +got):\n%s", diff)
	}
}

// contains reports whether a release, as Helm stores it, contains a text.
func contains(t *testing.T, release []byte, text string) bool {
	t.Helper()
	zipped, err := base64.StdEncoding.DecodeString(string(release))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil || !bytes.Contains(plain, []byte("vdi-")) {
		t.Fatalf("not a release: %v", err)
	}
	return bytes.Contains(plain, []byte(text))
}
