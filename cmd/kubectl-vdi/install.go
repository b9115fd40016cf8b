package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/deploy"
)

// agentNamespace is where the embedded manifests and roles put the agent.
const agentNamespace = "vdi-system"

// annotationBootstrap on the agent's Pods is a hash of what they have from the
// bootstrap Secret as flags: they start anew when that changes.
const annotationBootstrap = "vdi.kasm.io/bootstrap"

var caHash = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func checkHashes(hashes []string) error {
	for _, hash := range hashes {
		if !caHash.MatchString(hash) {
			return fmt.Errorf("--ca-hash %q is not sha256: and 64 hexadecimal digits", hash)
		}
	}
	return nil
}

// installOptions are what `kubectl vdi join` prints.
type installOptions struct {
	member, hub, serverName, image string
	caHashes                       []string
	token, tokenFile               string
}

func installCommand(c *cluster) *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "install-agent --member NAME --hub HOST:PORT --ca-hash HASH (--token - | --token-file FILE)",
		Short: "Install the agent into a member, or give it a new token",
		Long: "Install the agent into the cluster of the current context: the CRD, its roles, its Deployment and how it\n" +
			"joins. `kubectl vdi join` prints this command, and the token that it reads. An agent that is there already is brought up to date, and\n" +
			"joins again with the token if it is not connected.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.install(cmd, o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.member, "member", "", "Name of the MemberCluster.")
	flags.StringVar(&o.hub, "hub", "", "Host and port where the hub listens for agents.")
	flags.StringVar(&o.serverName, "hub-server-name", "", "Name in the hub's certificate; by default the host of --hub.")
	flags.StringSliceVar(&o.caHashes, "ca-hash", nil, "Hash of the hub's CA; any of several.")
	flags.StringVar(&o.token, "token", "", "- reads the join token from the standard input. The token itself is accepted too, but arguments are in the list of processes and in the shell's history.")
	flags.StringVar(&o.tokenFile, "token-file", "", "File with the join token.")
	flags.StringVar(&o.image, "image", "vdi-agent:"+version, "Image of the agent.")
	for _, name := range []string{"member", "hub", "ca-hash"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // a flag that is not defined above
		}
	}
	cmd.MarkFlagsOneRequired("token", "token-file")
	cmd.MarkFlagsMutuallyExclusive("token", "token-file")
	return cmd
}

func (c *cluster) install(cmd *cobra.Command, o installOptions) error {
	if err := o.readToken(cmd.InOrStdin()); err != nil {
		return err
	}
	objects, err := o.objects()
	if err != nil {
		return err
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	names := make([]string, 0, len(objects))
	for _, object := range objects {
		name := object.GetKind() + "/" + object.GetName()
		if err := apply(cmd.Context(), api, object); err != nil {
			return fmt.Errorf("applying %s: %w", name, err)
		}
		names = append(names, name)
	}
	return c.answer(cmd.OutOrStdout(), map[string]any{"member": o.member, "applied": names}, fmt.Sprintf(
		"Applied %s.\nThe agent of member %s joins by itself; if it does not: kubectl -n %s get events, kubectl -n %[3]s logs deploy/vdi-agent",
		strings.Join(names, ", "), o.member, agentNamespace))
}

// maxToken is how much is read for a token.
const maxToken = 4096

// readToken reads the token where the flags say: it is the first line.
func (o *installOptions) readToken(in io.Reader) error {
	switch {
	case o.tokenFile != "":
		file, err := os.Open(o.tokenFile)
		if err != nil {
			return fmt.Errorf("reading --token-file: %w", err)
		}
		defer file.Close()
		in = file
	case o.token != "-":
		return nil
	}
	line, err := bufio.NewReader(io.LimitReader(in, maxToken)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the token: %w", err)
	}
	o.token = strings.TrimSpace(line)
	return nil
}

func apply(ctx context.Context, api client.Client, object *unstructured.Unstructured) error {
	return api.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership)
}

func (o installOptions) check() error {
	if _, ok := v1alpha1.JoinTokenID(o.token); !ok {
		return errors.New("what --token or --token-file gives is not a join token: copy the whole of what `kubectl vdi join` has printed")
	}
	if _, _, err := net.SplitHostPort(o.hub); err != nil {
		return fmt.Errorf("--hub %q is not host:port", o.hub)
	}
	if len(o.caHashes) == 0 {
		return errors.New("--ca-hash is needed, or the agent would send its token to whoever answers")
	}
	return checkHashes(o.caHashes)
}

// objects that make an agent, in the order in which they are applied.
func (o installOptions) objects() ([]*unstructured.Unstructured, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	manifests, err := decode(deploy.SessionAssignments, deploy.Agent, deploy.AgentRBAC)
	if err != nil {
		return nil, err
	}
	bootstrap, err := o.bootstrap()
	if err != nil {
		return nil, err
	}
	var first, last []*unstructured.Unstructured
	for _, object := range manifests {
		switch object.GetKind() {
		case "Namespace", "CustomResourceDefinition":
			first = append([]*unstructured.Unstructured{object}, first...)
		case "Deployment":
			if object, err = o.deployment(object); err != nil {
				return nil, err
			}
			last = append(last, bootstrap, object)
		default:
			first = append(first, object)
		}
	}
	return append(first, last...), nil
}

func decode(manifests ...[]byte) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, text := range manifests {
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := decoder.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("reading the embedded manifests: %w", err)
			}
			if len(object.Object) > 0 {
				all = append(all, object)
			}
		}
	}
	return all, nil
}

// name is the one that the hub's certificate must have.
func (o installOptions) name() string {
	if o.serverName != "" {
		return o.serverName
	}
	host, _, _ := net.SplitHostPort(o.hub) // which was checked
	return host
}

func (o installOptions) bootstrap() (*unstructured.Unstructured, error) {
	return toUnstructured(&corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: agentNamespace, Name: v1alpha1.AgentBootstrap,
			// By which deploy/uninstall.sh finds it.
			Labels: map[string]string{"app.kubernetes.io/name": "vdi-agent", "app.kubernetes.io/part-of": "vdi-fleet"},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			v1alpha1.BootstrapMember: []byte(o.member), v1alpha1.BootstrapHub: []byte(o.hub),
			v1alpha1.BootstrapServerName: []byte(o.name()), v1alpha1.BootstrapToken: []byte(o.token),
			v1alpha1.BootstrapCAHash: []byte(strings.Join(o.caHashes, ",")),
		},
	})
}

// envImage is the variable by which the Deployment tells the agent its own image.
const envImage = "VDI_IMAGE"

// deployment has the image, and starts anew when the hub's address changes.
func (o installOptions) deployment(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	d := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, d); err != nil {
		return nil, fmt.Errorf("reading the embedded Deployment: %w", err)
	}
	d.Spec.Template.Annotations = map[string]string{
		annotationBootstrap: v1alpha1.TrustBundleHash([]byte(strings.Join([]string{o.member, o.hub, o.name()}, "\n"))),
	}
	agent := &d.Spec.Template.Spec.Containers[0]
	agent.Image = o.image
	for i := range agent.Env {
		if agent.Env[i].Name == envImage {
			agent.Env[i].Value = o.image
		}
	}
	return toUnstructured(d)
}

// toUnstructured leaves out what only an API server fills in.
func toUnstructured(object client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("preparing %s: %w", object.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "status")
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	unstructured.RemoveNestedField(u.Object, "spec", "template", "metadata", "creationTimestamp")
	return u, nil
}
