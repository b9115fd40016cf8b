package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

const token = "abcdefgh.abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst"

var hash = "sha256:" + strings.Repeat("0a", 32)

// TestInstallAgentAppliesTheChart checks what install-agent sets in the agent's chart; test/charts
// checks all that the chart renders.
func TestInstallAgentAppliesTheChart(t *testing.T) {
	g := NewWithT(t)
	o := installOptions{member: "eu", hub: "hub.example.com:8443", token: token, caHashes: []string{hash}, image: "registry.example.com:5000/vdi-agent:1"}
	objects, err := o.objects()
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, object := range objects {
		names = append(names, object.GetKind()+"/"+object.GetName())
	}
	g.Expect(names).To(Equal([]string{
		"Namespace/vdi-system", "PriorityClass/vdi-agent", "PodDisruptionBudget/vdi-agent", "ServiceAccount/vdi-agent",
		"Secret/vdi-agent-bootstrap", "CustomResourceDefinition/sessionassignments.vdi.kasm.io",
		"ClusterRole/vdi-agent", "ClusterRole/vdi-agent-metrics-reader", "ClusterRole/vdi-agent-sessions",
		"ClusterRoleBinding/vdi-agent", "ClusterRoleBinding/vdi-agent-metrics", "Role/vdi-agent", "RoleBinding/vdi-agent",
		"Service/vdi-agent-metrics", "Service/vdi-agent-lease", "Deployment/vdi-agent",
	}))
	elastic := o
	elastic.nodeGroups = true
	more, err := elastic.objects()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(more).To(HaveLen(len(objects)+4), "a ClusterRole and a Role for node groups, with their bindings")
	buffered := o
	buffered.buffers = true
	more, err = buffered.objects()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(more).To(HaveLen(len(objects)+3), "a Role for buffers with its binding, and their PriorityClass")
	g.Expect(objects[0].GetLabels()).To(Equal(map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}))

	secret := &corev1.Secret{}
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(objects[4].Object, secret)).To(Succeed())
	g.Expect(secret.Labels).To(And(HaveKeyWithValue("app.kubernetes.io/name", "vdi-agent"), HaveKeyWithValue("app.kubernetes.io/part-of", "vdi-fleet")), "by which deploy/uninstall.sh finds it")
	g.Expect(secret.Data).To(Equal(map[string][]byte{
		v1alpha1.BootstrapMember: []byte("eu"), v1alpha1.BootstrapHub: []byte("hub.example.com:8443"), v1alpha1.BootstrapServerName: []byte("hub.example.com"),
		v1alpha1.BootstrapToken: []byte(token), v1alpha1.BootstrapCAHash: []byte(hash),
	}))

	deployment := deploymentOf(t, o)
	container := deployment.Spec.Template.Spec.Containers[0]
	g.Expect(container.Image).To(Equal(o.image))
	g.Expect(container.Env).To(ContainElement(corev1.EnvVar{Name: "VDI_IMAGE", Value: o.image}), "of which guards are made")
	g.Expect(deployment.Spec.Template.Annotations).To(HaveLen(1))
	other := o
	other.token = strings.Replace(token, "abcdefgh.", "hgfedcba.", 1)
	g.Expect(deploymentOf(t, other).Spec.Template).To(Equal(deployment.Spec.Template), "another token restarts no agent")
	other.hub = "hub2.example.com:8443"
	g.Expect(deploymentOf(t, other).Spec.Template).NotTo(Equal(deployment.Spec.Template), "another hub does")
}

func deploymentOf(t *testing.T, o installOptions) *appsv1.Deployment {
	t.Helper()
	objects, err := o.objects()
	if err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[len(objects)-1].Object, deployment); err != nil {
		t.Fatal(err)
	}
	return deployment
}

func TestImagesAreOfAnyReference(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for reference, want := range map[string][3]string{
		"vdi-agent:1":                      {"vdi-agent", "1", ""},
		"vdi-agent":                        {"vdi-agent", "latest", ""},
		"registry:5000/vdi/agent":          {"registry:5000/vdi/agent", "latest", ""},
		"registry:5000/vdi/agent:v1":       {"registry:5000/vdi/agent", "v1", ""},
		"registry/agent@" + digest:         {"registry/agent", "latest", digest},
		"registry:5000/agent:v1@" + digest: {"registry:5000/agent", "v1", digest},
	} {
		got := imageOf(reference)
		if got["repository"] != want[0] || got["tag"] != want[1] || got["digest"] != want[2] {
			t.Errorf("%s: %v, want %q", reference, got, want)
		}
	}
}

// decode reads the objects of a manifest.
func decode(manifest []byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096); ; {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(object.Object) > 0 {
			all = append(all, object)
		}
	}
}

func TestWhatJoinDidNotPrintIsRefused(t *testing.T) {
	g := NewWithT(t)
	good := []string{"install-agent", "--member=eu", "--hub=h:1", "--ca-hash=" + hash, "--token=" + token}
	for bad, want := range map[string]string{
		"--token=abc": "--token", "--hub=h": "--hub", "--ca-hash=sha256:0A": "--ca-hash",
	} {
		_, err := run(fakeHub(t), "", append(good, bad)...)
		g.Expect(err).To(MatchError(ContainSubstring(want)))
		g.Expect(err).NotTo(MatchError(ContainSubstring(token)))
	}
	for _, needed := range []string{"member", "hub", "ca-hash", "token"} {
		args := []string{}
		for _, arg := range good {
			if !strings.HasPrefix(arg, "--"+needed+"=") {
				args = append(args, arg)
			}
		}
		_, err := run(fakeHub(t), "", args...)
		g.Expect(err).To(MatchError(ContainSubstring(needed)))
	}
}

func TestTheTokenIsReadFromAFileOrTheStandardInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, o := range map[string]struct {
		options installOptions
		stdin   string
	}{
		"an argument":        {options: installOptions{token: token}},
		"the standard input": {options: installOptions{token: "-"}, stdin: "  " + token + "\nand more\n"},
		"no newline":         {options: installOptions{token: "-"}, stdin: token},
		"a file":             {options: installOptions{tokenFile: file}},
	} {
		if err := o.options.readToken(strings.NewReader(o.stdin)); err != nil || o.options.token != token {
			t.Errorf("%s: %q, %v", what, o.options.token, err)
		}
	}
	missing := installOptions{tokenFile: file + "-not"}
	if err := missing.readToken(nil); err == nil || !strings.Contains(err.Error(), "--token-file") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestJoinPrintsWhatAnAgentJoinsFrom checks the Secret that install-agent creates as well.
func TestJoinPrintsWhatAnAgentJoinsFrom(t *testing.T) {
	g := NewWithT(t)
	ca, caHash := newCA(t)
	args := append(joinEU, "--hub=hub.example.com:8443", "-o=manifest")
	for namespace, more := range map[string][]string{"vdi-system": nil, "elsewhere": {"--agent-namespace=elsewhere"}} {
		out, err := run(fakeHub(t, hubCA(ca)), "", append(args, more...)...)
		g.Expect(err).NotTo(HaveOccurred())
		objects, err := decode([]byte(out))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(objects).To(HaveLen(2))
		g.Expect(objects[0].GetKind() + "/" + objects[0].GetName()).To(Equal("Namespace/" + namespace))
		secret := &corev1.Secret{}
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(objects[1].Object, secret)).To(Succeed())
		g.Expect(secret.Namespace + "/" + secret.Name).To(Equal(namespace + "/" + v1alpha1.AgentBootstrap))
		g.Expect(string(secret.Data[v1alpha1.BootstrapServerName])).To(Equal("hub.example.com"))
		g.Expect(string(secret.Data[v1alpha1.BootstrapCAHash])).To(Equal(caHash))
		_, ok := v1alpha1.JoinTokenID(string(secret.Data[v1alpha1.BootstrapToken]))
		g.Expect(ok).To(BeTrue())
	}
	_, err := run(fakeHub(t), "", "install-agent", "-o=manifest")
	g.Expect(err).To(MatchError(ContainSubstring("--output")))
}

// TestJoiningOnARealAPIServer uses one cluster as hub and member.
func TestJoiningOnARealAPIServer(t *testing.T) {
	g := NewWithT(t)
	root, err := harness.Root()
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	both, err := harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Name: "both", APIOnly: true, CRDDirs: []string{filepath.Join(root, "deploy/charts/vdi-hub/files/crds")},
		Namespaces: map[string]map[string]string{"vdi-system": nil},
	})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(both.Stop()).To(Succeed()) })
	kubeconfig, err := both.KubeconfigFor("operator", "system:masters")
	g.Expect(err).NotTo(HaveOccurred())
	scheme, err := newScheme()
	g.Expect(err).NotTo(HaveOccurred())
	admin, err := client.New(both.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	ca, caHash := newCA(t)
	g.Expect(admin.Create(ctx, hubCA(ca))).To(Succeed())

	out, err := run(&cluster{}, "", append(joinEU, "--kubeconfig="+kubeconfig, "--hub=hub:1", "-o=json")...)
	g.Expect(err).NotTo(HaveOccurred(), out)
	var answer joined
	g.Expect(json.Unmarshal([]byte(out), &answer)).To(Succeed())
	_, err = run(&cluster{}, "", append(joinEU, "--kubeconfig="+kubeconfig, "--hub=hub:1")...)
	g.Expect(err).NotTo(HaveOccurred(), "what the API server fills in is no other spec")

	install := strings.Fields(strings.TrimPrefix(answer.Command, "kubectl vdi "))
	install = append(install, "--context=", "--kubeconfig="+kubeconfig)
	for _, stdin := range []string{"", answer.Token + "\n"} {
		args := install
		if stdin == "" {
			args = append(install, "--token="+answer.Token) // as earlier releases printed it
		}
		out, err = run(&cluster{}, stdin, args...)
		g.Expect(err).NotTo(HaveOccurred(), out)
	}
	bootstrap := &corev1.Secret{}
	g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: "vdi-system", Name: v1alpha1.AgentBootstrap}, bootstrap)).To(Succeed())
	g.Expect(string(bootstrap.Data[v1alpha1.BootstrapToken])).To(Equal(answer.Token))
	g.Expect(string(bootstrap.Data[v1alpha1.BootstrapCAHash])).To(Equal(caHash))

	// The namespace now enforces Pod Security restricted: the agent's Pod meets it.
	deployment := &appsv1.Deployment{}
	g.Expect(admin.Get(ctx, client.ObjectKey{Namespace: "vdi-system", Name: "vdi-agent"}, deployment)).To(Succeed())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vdi-system", Name: "agent"}, Spec: deployment.Spec.Template.Spec}
	g.Expect(admin.Create(ctx, pod.DeepCopy(), client.DryRunAll)).To(Succeed())
	pod.Spec.SecurityContext.RunAsNonRoot = nil
	g.Expect(admin.Create(ctx, pod, client.DryRunAll)).To(MatchError(ContainSubstring("PodSecurity")))

	byHand(t, root, kubeconfig, admin)
}

// byHand runs the commands of docs/installation.md for joining without the plugin.
func byHand(t *testing.T, root, kubeconfig string, admin client.Client) {
	g := NewWithT(t)
	for _, tool := range []string{"bash", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the commands of docs/installation.md need %s: %v", tool, err)
		}
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/installation.md"))
	g.Expect(err).NotTo(HaveOccurred())
	_, rest, found := strings.Cut(string(page), "```sh\n# Joining by hand")
	g.Expect(found).To(BeTrue(), "docs/installation.md has these commands")
	script, _, _ := strings.Cut(rest, "```")
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", "#"+script)
	cmd.Dir = root
	for _, name := range []string{"HOME", "TMPDIR"} {
		cmd.Env = append(cmd.Env, name+"="+os.Getenv(name))
	}
	cmd.Env = append(cmd.Env, "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"), "HUB="+kubeconfig, "MEMBER="+kubeconfig)
	out, err := cmd.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))

	bootstrap := &corev1.Secret{}
	g.Expect(admin.Get(t.Context(), client.ObjectKey{Namespace: "vdi-system", Name: v1alpha1.AgentBootstrap}, bootstrap)).To(Succeed())
	written := string(bootstrap.Data[v1alpha1.BootstrapToken])
	id, ok := v1alpha1.JoinTokenID(written)
	g.Expect(ok).To(BeTrue(), "%q is a token", written)
	g.Expect(caHash.MatchString(string(bootstrap.Data[v1alpha1.BootstrapCAHash]))).To(BeTrue())
	kept := &corev1.Secret{}
	g.Expect(admin.Get(t.Context(), client.ObjectKey{Namespace: "vdi-system", Name: "join-" + id}, kept)).To(Succeed())
	member := &v1alpha1.MemberCluster{}
	g.Expect(admin.Get(t.Context(), client.ObjectKey{Name: "eu-west"}, member)).To(Succeed())
	g.Expect(kept.Type).To(Equal(v1alpha1.JoinTokenType))
	g.Expect(string(kept.Data[v1alpha1.JoinTokenHash])).To(Equal(v1alpha1.JoinTokenSum(written)))
	g.Expect(string(kept.Data[v1alpha1.JoinTokenMemberUID])).To(Equal(string(member.UID)))
	g.Expect(string(kept.Data[v1alpha1.JoinTokenMember])).To(Equal("eu-west"))
	g.Expect(kept.OwnerReferences).To(HaveExactElements(HaveField("UID", member.UID)))
	expires, err := time.Parse(time.RFC3339, string(kept.Data[v1alpha1.JoinTokenExpires]))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(expires).To(And(BeTemporally(">", time.Now()), BeTemporally("<=", time.Now().Add(v1alpha1.JoinTokenLifetime))))
}
