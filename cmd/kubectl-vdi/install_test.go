package main

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

var update = flag.Bool("update", false, "write the golden file anew")

const token = "abcdefgh.abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst"

var hash = "sha256:" + strings.Repeat("0a", 32)

func TestTheAgentsManifests(t *testing.T) {
	o := installOptions{member: "eu", hub: "hub.example.com:8443", token: token, caHashes: []string{hash}, image: "registry.example.com/vdi-agent:1"}
	objects, err := o.objects()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, object := range objects {
		if kind := object.GetKind(); kind == "CustomResourceDefinition" || kind == "ClusterRole" || kind == "Role" {
			object.Object = map[string]any{"kind": kind, "name": object.GetName()} // generated elsewhere
		}
		text, err := yaml.Marshal(object.Object)
		if err != nil {
			t.Fatal(err)
		}
		got.WriteString("---\n" + string(text))
	}
	const golden = "testdata/agent.yaml"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("differs from %s (-want +got), write it anew with -update:\n%s", golden, diff)
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

// TestJoinPrintsWhatAnAgentJoinsFrom: the same Secret as install-agent makes.
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

// TestJoiningOnARealAPIServer takes one cluster for hub and member.
func TestJoiningOnARealAPIServer(t *testing.T) {
	g := NewWithT(t)
	root, err := harness.Root()
	g.Expect(err).NotTo(HaveOccurred())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	both, err := harness.StartControlPlane(ctx, harness.ControlPlaneOptions{
		Name: "both", APIOnly: true, CRDDirs: []string{filepath.Join(root, "deploy", "crds")},
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
