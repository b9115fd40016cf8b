package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// fieldOwner is the field owner of applied objects.
const fieldOwner = client.FieldOwner("kubectl-vdi")

// cluster has the global flags: the cluster to connect to, and the output format.
type cluster struct {
	rules     clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
	namespace string
	output    string
	// revocationTimeout overrides the constant of that name, if set.
	revocationTimeout time.Duration
	// client is set by tests; by default it is made from the kubeconfig.
	client client.WithWatch
}

func newCommand(c *cluster) *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl-vdi", Version: version, SilenceErrors: true, SilenceUsage: true,
		Short:       "Manage the members of a fleet of virtual desktops, and explain placements",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl vdi"},
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if c.output != "" && c.output != "json" && (c.output != outputManifest || cmd.Name() != "join") {
				return fmt.Errorf("--output %q is not json; only join supports manifest", c.output)
			}
			return nil
		},
	}
	c.rules = *clientcmd.NewDefaultClientConfigLoadingRules()
	flags := root.PersistentFlags()
	flags.StringVar(&c.rules.ExplicitPath, "kubeconfig", "", "Path to the kubeconfig file.")
	flags.StringVar(&c.overrides.CurrentContext, "context", "", "The kubeconfig context: the hub's cluster, or the member's for install-agent and admit.")
	flags.StringVarP(&c.namespace, "namespace", "n", "vdi-system", "Namespace of the hub.")
	flags.StringVarP(&c.output, "output", "o", "", "Output format: json, or manifest of join; by default text.")
	root.AddCommand(consoleCommand(c), joinCommand(c), installCommand(c), admitCommand(c), accessCommand(c, "revoke", v1alpha1.AccessRevoked),
		accessCommand(c, "allow", v1alpha1.AccessAllowed), rotateCommand(c), explainCommand(c),
		cordonCommand(c), uncordonCommand(c), drainCommand(c), fenceCommand(c), unfenceCommand(c), rebalanceCommand(c))
	return root
}

// connect returns a client of the cluster.
func (c *cluster) connect() (client.WithWatch, error) {
	if c.client != nil {
		return c.client, nil
	}
	config, err := c.config().ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	made, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return made, nil
}

func (c *cluster) config() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&c.rules, &c.overrides)
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme))
}

// explain adds the remedy to an error of the API server.
func explain(err error, what string) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("%s: %w; use the context of the hub's cluster, with the CRDs of `make install`", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// printResult prints the result as JSON or text.
func (c *cluster) printResult(out io.Writer, result any, text string) error {
	if c.output != "json" {
		_, err := fmt.Fprintln(out, escaped(text))
		return err
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(result); err != nil {
		return err
	}
	_, err := io.WriteString(out, escapedJSON(b.String()))
	return err
}
