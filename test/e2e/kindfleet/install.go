package kindfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// hubPort is the port of the hub's Service on its nodes.
const hubPort = 30443

// installTimeout bounds the wait for a release, on a busy machine.
const installTimeout = 10 * time.Minute

// Release is the charts and images to install.
type Release struct {
	// Charts is the folder with vdi-hub and vdi-agent.
	Charts string
	// HubImage and AgentImage are images, NAME:TAG.
	HubImage, AgentImage string
	// AllNamespaces is for a hub's chart that is older than sessionNamespaces, and rejects it.
	AllNamespaces bool
	// Console installs the console, and doors in the members.
	Console bool
}

// Release returns the release of this tree.
func (f *Fleet) Release() Release {
	return Release{
		Charts: filepath.Join(f.options.Root, "deploy", "charts"), HubImage: f.options.HubImage, AgentImage: f.options.AgentImage, Console: true,
	}
}

// Install installs hub and agents, and joins the members that have not joined.
func (f *Fleet) Install(ctx context.Context) error {
	for _, c := range append([]*Cluster{f.Hub}, f.Members...) {
		if err := c.namespaces(ctx); err != nil {
			return err
		}
	}
	if err := f.InstallHub(ctx, f.Release()); err != nil {
		return err
	}
	for _, member := range f.Members {
		// Agents of releases before that command need the label alone.
		if _, err := run(ctx, f.bin("kubectl-vdi"), "--kubeconfig", f.Kubeconfig(), "--context", member.Name, "admit", Desktops); err != nil {
			return err
		}
		if err := f.InstallAgent(ctx, member, f.Release()); err != nil {
			return err
		}
	}
	for _, member := range f.Members {
		if err := f.WaitForMember(ctx, member.Name); err != nil {
			return err
		}
	}
	return nil
}

// namespaces creates the namespaces of the system and of desktops, both with Pod Security at level
// restricted.
func (c *Cluster) namespaces(ctx context.Context) error {
	restricted := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	for _, name := range []string{SystemNamespace, Desktops} {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: restricted}}
		if err := c.Client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// InstallHub installs the hub, or changes it to that release.
func (f *Fleet) InstallHub(ctx context.Context, r Release) error {
	values := map[string]any{
		"image":      image(r.HubImage),
		"timeFactor": f.options.TimeFactor,
		"link": map[string]any{
			"dnsNames": []string{f.Hub.ControlPlane()},
			"service":  map[string]any{"type": "NodePort", "nodePort": hubPort},
		},
	}
	if !r.AllNamespaces {
		values["sessionNamespaces"] = []string{Desktops}
	}
	if r.Console {
		if err := f.prepareConsole(ctx); err != nil {
			return fmt.Errorf("preparing the console: %w", err)
		}
		values["console"] = consoleValues()
	}
	return f.helm(ctx, f.Hub, "vdi-hub", filepath.Join(r.Charts, "vdi-hub"), values)
}

// InstallAgent installs a member's agent, or changes it to that release. A new one gets a token to
// join with.
func (f *Fleet) InstallAgent(ctx context.Context, member *Cluster, r Release) error {
	values := map[string]any{"image": image(r.AgentImage), "timeFactor": f.options.TimeFactor}
	if r.Console {
		values["door"] = map[string]any{"enabled": true, "replicas": 2, "ingressClassName": "traefik"}
	}
	var registered v1alpha1.MemberCluster
	err := f.Hub.Client.Get(ctx, client.ObjectKey{Name: member.Name}, &registered)
	switch {
	case apierrors.IsNotFound(err), err == nil && registered.Status.Fingerprint == "":
		if err := f.join(ctx, member); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	return f.helm(ctx, member, "vdi-agent", filepath.Join(r.Charts, "vdi-agent"), values)
}

// join registers the member on the hub, and creates the Secret with which its agent joins.
func (f *Fleet) join(ctx context.Context, member *Cluster) error {
	region := ""
	for _, l := range layouts {
		if l.name == member.Name {
			region = l.region
		}
	}
	text, err := run(ctx, f.bin("kubectl-vdi"), "--kubeconfig", f.Kubeconfig(), "--context", Hub, "join", member.Name,
		"--region", region, "--ingress-domain", member.Name+".desktops.test",
		"--hub", fmt.Sprintf("%s:%d", f.Hub.ControlPlane(), hubPort), "-o", "manifest")
	if err != nil {
		return err
	}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), len(text))
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := member.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kindfleet"), client.ForceOwnership); err != nil {
			return err
		}
	}
}

func (f *Fleet) helm(ctx context.Context, c *Cluster, release, chart string, values map[string]any) error {
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	file := filepath.Join(f.dir(), release+"-"+c.Name+".values.json")
	defer func() { _ = os.Remove(file) }()
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	_, err = run(ctx, f.bin("helm"), "upgrade", "--install", release, chart, "--kubeconfig", f.Kubeconfig(), "--kube-context", c.Name,
		"--namespace", SystemNamespace, "--reset-values", "--values", file, "--wait", "--timeout", installTimeout.String())
	return err
}

// WaitForMember waits until the hub shows the member as Ready.
func (f *Fleet) WaitForMember(ctx context.Context, name string) error {
	var member v1alpha1.MemberCluster
	err := wait.PollUntilContextTimeout(ctx, time.Second, installTimeout, true, func(ctx context.Context) (bool, error) {
		if err := f.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, &member); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		return meta.IsStatusConditionTrue(member.Status.Conditions, v1alpha1.ConditionReady), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for member %s: %w: %+v", name, err, member.Status.Conditions)
	}
	return nil
}

func (f *Fleet) bin(name string) string { return filepath.Join(f.options.Root, "bin", name) }

// image returns the charts' values for an image.
func image(ref string) map[string]any {
	repository, tag, _ := strings.Cut(ref, ":")
	return map[string]any{"repository": repository, "tag": tag}
}
