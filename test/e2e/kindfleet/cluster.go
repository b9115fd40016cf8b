package kindfleet

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/exec"
)

// readyTimeout bounds the wait for a cluster, which takes 20 s on two idle cores.
const readyTimeout = 10 * time.Minute

// kubeadmTimeouts are longer than kubeadm's defaults, for a busy machine.
const kubeadmTimeouts = "timeouts: {controlPlaneComponentHealthCheck: 10m, kubeletHealthCheck: 10m, kubernetesAPICall: 5m, tlsBootstrap: 10m, discovery: 10m}\n"

// Cluster is one kind cluster.
type Cluster struct {
	// Name is the cluster's name and its context in the kubeconfig: hub, or a member's name.
	Name   string
	Config *rest.Config
	Client client.Client

	fleet *Fleet
}

// layout describes a cluster of the fleet.
type layout struct {
	name, region string
	workers      int
}

// layouts are the clusters of the fleet: a hub, and two members in two regions, the first with
// three nodes. The control plane node of a member with workers takes no desktops, so that its API
// server can be stopped while they run.
var layouts = []layout{
	{name: Hub},
	{name: "eu-west", region: "eu-west", workers: 2},
	{name: "us-east", region: "us-east"},
}

// kindName returns kind's name of a cluster, the prefix of its containers: vdi-hub-control-plane.
func kindName(name string) string { return "vdi-" + name }

// ControlPlane returns the name of the container of the cluster's API server, which is also its
// host in Docker's DNS.
func (c *Cluster) ControlPlane() string { return kindName(c.Name) + "-control-plane" }

func (l layout) config() *v1alpha4.Cluster {
	config := &v1alpha4.Cluster{
		// Debian's Docker may have only cgroup v1, on which a current kubelet does not start by
		// default.
		KubeadmConfigPatches: []string{
			"kind: KubeletConfiguration\nfailCgroupV1: false\n",
			// kubeadm waits for 4 minutes by default, and less for single calls.
			"kind: InitConfiguration\n" + kubeadmTimeouts, "kind: JoinConfiguration\n" + kubeadmTimeouts,
		},
	}
	for i := range 1 + l.workers {
		node := v1alpha4.Node{Role: v1alpha4.ControlPlaneRole}
		if i > 0 {
			node.Role = v1alpha4.WorkerRole
		}
		config.Nodes = append(config.Nodes, node)
	}
	v1alpha4.SetDefaultsCluster(config)
	return config
}

// create creates the cluster, unless it exists.
func (f *Fleet) create(l layout) error {
	there, err := f.provider.List()
	if err != nil {
		return err
	}
	if slices.Contains(there, kindName(l.name)) {
		return nil
	}
	options := []cluster.CreateOption{
		cluster.CreateWithV1Alpha4Config(l.config()),
		cluster.CreateWithKubeconfigPath(f.kubeconfigOf(l.name)),
		cluster.CreateWithWaitForReady(readyTimeout),
		cluster.CreateWithDisplayUsage(false),
		cluster.CreateWithDisplaySalutation(false),
	}
	if f.options.NodeImage != "" {
		options = append(options, cluster.CreateWithNodeImage(f.options.NodeImage))
	}
	if err := f.provider.Create(kindName(l.name), options...); err != nil {
		if failed := exec.RunErrorForError(err); failed != nil {
			err = fmt.Errorf("%w:\n%s", err, failed.Output)
		}
		return fmt.Errorf("creating cluster %s: %w", l.name, err)
	}
	return nil
}

// open connects to the cluster, and adds it to the kubeconfig of the fleet.
func (f *Fleet) open(name string) (*Cluster, error) {
	text, err := f.provider.KubeConfig(kindName(name), false)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig of %s: %w", name, err)
	}
	// A context is named for the cluster, as in the fleets of test/harness.
	text = strings.ReplaceAll(text, "kind-"+kindName(name), name)
	if err := os.WriteFile(f.kubeconfigOf(name), []byte(text), 0o600); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 200, 400
	c := &Cluster{Name: name, Config: config, fleet: f}
	c.Client, err = client.New(config, client.Options{Scheme: Scheme})
	return c, err
}

// merge writes the kubeconfig of the fleet, with the contexts of all.
func (f *Fleet) merge() error {
	rules := clientcmd.ClientConfigLoadingRules{}
	for _, l := range layouts {
		rules.Precedence = append(rules.Precedence, f.kubeconfigOf(l.name))
	}
	all, err := rules.Load()
	if err != nil {
		return err
	}
	all.CurrentContext = Hub
	return clientcmd.WriteToFile(*all, f.Kubeconfig())
}

// Nodes returns the node containers of the cluster.
func (c *Cluster) Nodes() ([]nodes.Node, error) {
	return c.fleet.provider.ListInternalNodes(kindName(c.Name))
}

// Node returns a node container by its name, which is that of the Node as well.
func (c *Cluster) Node(name string) (*Node, error) {
	all, err := c.Nodes()
	if err != nil {
		return nil, err
	}
	for _, node := range all {
		if node.String() == name {
			return &Node{node}, nil
		}
	}
	return nil, fmt.Errorf("cluster %s has no node %s", c.Name, name)
}

// Stop stops all containers of the cluster at once, as a region's power cut does.
func (c *Cluster) Stop(ctx context.Context) error { return c.docker(ctx, "kill") }

// Start starts all containers of the cluster again.
func (c *Cluster) Start(ctx context.Context) error { return c.docker(ctx, "start") }

func (c *Cluster) docker(ctx context.Context, verb string) error {
	all, err := c.Nodes()
	if err != nil {
		return err
	}
	args := []string{verb}
	for _, node := range all {
		args = append(args, node.String())
	}
	_, err = run(ctx, "docker", args...)
	return err
}
