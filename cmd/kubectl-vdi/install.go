package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/deploy"
)

// agentNamespace is the namespace in which install-agent installs the agent.
const agentNamespace = "vdi-system"

var caHash = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func checkHashes(hashes []string) error {
	for _, hash := range hashes {
		if !caHash.MatchString(hash) {
			return fmt.Errorf("--ca-hash %q is not sha256: and 64 hexadecimal digits", hash)
		}
	}
	return nil
}

// installOptions are the flags of install-agent, as `kubectl vdi join` prints them.
type installOptions struct {
	member, hub, serverName, image string
	caHashes                       []string
	token, tokenFile               string
	nodeGroups, buffers            bool
}

func installCommand(c *cluster) *cobra.Command {
	var o installOptions
	cmd := &cobra.Command{
		Use:   "install-agent --member NAME --hub HOST:PORT --ca-hash HASH (--token - | --token-file FILE)",
		Short: "Install the agent into a member, or update its join token",
		Long: "Install the agent's chart into the current context's cluster, without its NetworkPolicy, and the Secret with\n" +
			"which the agent joins. `kubectl vdi join` prints this command and the token. An agent that is already\n" +
			"installed is updated, and joins again with the token if it is not connected.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.install(cmd, o) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.member, "member", "", "Name of the MemberCluster.")
	flags.StringVar(&o.hub, "hub", "", "Host and port of the hub's endpoint for agents.")
	flags.StringVar(&o.serverName, "hub-server-name", "", "Name in the hub's certificate; by default the host of --hub.")
	flags.StringSliceVar(&o.caHashes, "ca-hash", nil, "Hash of the hub's CA; any of several may match.")
	flags.StringVar(&o.token, "token", "", "The join token; - reads it from standard input, which keeps it out of the process list and the shell's history.")
	flags.StringVar(&o.tokenFile, "token-file", "", "Path to a file with the join token.")
	flags.StringVar(&o.image, "image", "vdi-agent:"+version, "Image of the agent.")
	flags.BoolVar(&o.nodeGroups, "node-groups", false, "Let the agent read what the cluster's autoscaler does, for spec.nodeGroups of the MemberCluster.")
	flags.BoolVar(&o.buffers, "buffers", false, "Let the agent keep slots free by Pods that desktops preempt, for spec.buffers of the MemberCluster.")
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
	return c.printResult(cmd.OutOrStdout(), map[string]any{"member": o.member, "applied": names}, fmt.Sprintf(
		"Applied %s.\nThe agent of member %s joins now. If it does not, see kubectl -n %s get events and kubectl -n %[3]s logs deploy/vdi-agent",
		strings.Join(names, ", "), o.member, agentNamespace))
}

// maxToken is the most bytes of a token that are read.
const maxToken = 4096

// readToken reads the token, the first line of the source that the flags name.
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
		return errors.New("--ca-hash is needed, or the agent would send its token to any server that answers")
	}
	return checkHashes(o.caHashes)
}

// objects returns the objects of an agent in the order in which they are applied: its
// namespace and its chart, without the NetworkPolicy, which requires the address of the
// cluster's API server.
func (o installOptions) objects() ([]*unstructured.Unstructured, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	chart, err := deploy.Render(deploy.AgentChart, agentNamespace, map[string]any{
		"image": imageOf(o.image), "join": o.join(), "networkPolicy": map[string]any{"enabled": false},
		"nodeGroups": map[string]any{"enabled": o.nodeGroups}, "buffers": map[string]any{"enabled": o.buffers},
	})
	if err != nil {
		return nil, err
	}
	return append([]*unstructured.Unstructured{namespaceNamed(agentNamespace, map[string]any{"pod-security.kubernetes.io/enforce": "restricted"})}, chart...), nil
}

// bootstrap returns the chart's Secret with which an agent joins.
func (o installOptions) bootstrap(namespace string) (*unstructured.Unstructured, error) {
	chart, err := deploy.Render(deploy.AgentChart, namespace, map[string]any{"join": o.join()})
	if err != nil {
		return nil, err
	}
	for _, object := range chart {
		if object.GetKind() == "Secret" && object.GetName() == v1alpha1.AgentBootstrap {
			return object, nil
		}
	}
	return nil, fmt.Errorf("chart %s has no Secret %s", deploy.AgentChart, v1alpha1.AgentBootstrap)
}

// join returns the value join of the agent's chart.
func (o installOptions) join() map[string]any {
	values := map[string]any{"member": o.member, "hub": o.hub, "caHashes": o.caHashes, "token": o.token}
	if o.serverName != "" {
		values["serverName"] = o.serverName
	}
	return values
}

// imageOf returns the value image of a chart for an image reference. The default tag is latest.
func imageOf(reference string) map[string]any {
	repository, digest, _ := strings.Cut(reference, "@")
	tag := "latest"
	if i := strings.LastIndex(repository, ":"); i > strings.LastIndex(repository, "/") {
		repository, tag = repository[:i], repository[i+1:]
	}
	return map[string]any{"repository": repository, "tag": tag, "digest": digest}
}

func namespaceNamed(name string, labels map[string]any) *unstructured.Unstructured {
	metadata := map[string]any{"name": name}
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}}
}
