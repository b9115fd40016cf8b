package kindfleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Hub is the name of the hub's cluster.
const Hub = "hub"

// Namespaces of hub and agents, and of the sessions.
const (
	SystemNamespace = "vdi-system"
	Desktops        = "desktops"
)

// network is the Docker network that the clusters share, so that their containers resolve one
// another's names.
const (
	network    = "vdi-fleet"
	networkEnv = "KIND_EXPERIMENTAL_DOCKER_NETWORK"
)

// Scheme has the types that this package reads.
var Scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(clientgoscheme.AddToScheme(Scheme))
	utilruntime.Must(v1alpha1.AddToScheme(Scheme))
}

// Options are the options of a fleet.
type Options struct {
	// Root is the root of the repository.
	Root string
	// NodeImage is the image of the nodes; "" for the default of kind's release.
	NodeImage string
	// HubImage and AgentImage are images of the local Docker, NAME:TAG.
	HubImage, AgentImage string
	// Images are loaded into the members' nodes as well, such as those of desktops.
	Images []string
	// TimeFactor scales the timings of hub and agents.
	TimeFactor float64
	// Log prints the progress.
	Log func(format string, args ...any) `json:"-"`
}

// Fleet is a hub and its members.
type Fleet struct {
	Hub     *Cluster
	Members []*Cluster

	options  Options
	provider *cluster.Provider
}

func newFleet(options Options) (*Fleet, error) {
	if options.Log == nil {
		options.Log = func(string, ...any) {}
	}
	root, err := filepath.Abs(options.Root)
	if err != nil {
		return nil, err
	}
	options.Root = root
	if err := os.Setenv(networkEnv, network); err != nil {
		return nil, err
	}
	f := &Fleet{options: options}
	// kind would print the steps of several clusters in no order.
	f.provider = cluster.NewProvider(cluster.ProviderWithDocker(), cluster.ProviderWithLogger(log.NoopLogger{}))
	return f, nil
}

// Up starts the fleet: clusters that are not there, images, hub, agents.
func Up(ctx context.Context, options Options) (*Fleet, error) {
	f, err := newFleet(options)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(f.dir(), 0o700); err != nil {
		return nil, err
	}
	if err := ensureNetwork(ctx); err != nil {
		return nil, err
	}
	began := time.Now()
	// One after the other: that takes hardly longer on two cores, and avoids kubeadm's timeouts.
	for _, l := range layouts {
		if err := f.create(l); err != nil {
			return nil, err
		}
	}
	f.log(began, "clusters are Ready")
	if err := f.connect(); err != nil {
		return nil, err
	}
	began = time.Now()
	if err := f.loadAll(ctx); err != nil {
		return nil, err
	}
	f.log(began, "images are loaded")
	began = time.Now()
	if err := f.Install(ctx); err != nil {
		return nil, err
	}
	f.log(began, "hub and agents are Ready")
	text, err := json.Marshal(f.options)
	if err != nil {
		return nil, err
	}
	return f, os.WriteFile(f.record(), text, 0o600)
}

// Open returns the fleet that is up in this repository.
func Open(root string) (*Fleet, error) {
	f, err := newFleet(Options{Root: root})
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(f.record())
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &f.options); err != nil {
		return nil, err
	}
	return f, f.connect()
}

// Images returns the images that were loaded into the members' nodes beside the agent's.
func (f *Fleet) Images() []string { return f.options.Images }

// TimeFactor returns the factor by which the timings of hub and agents are scaled.
func (f *Fleet) TimeFactor() float64 { return f.options.TimeFactor }

func (f *Fleet) connect() error {
	for _, l := range layouts {
		c, err := f.open(l.name)
		if err != nil {
			return err
		}
		if l.name == Hub {
			f.Hub = c
		} else {
			f.Members = append(f.Members, c)
		}
	}
	return f.merge()
}

// Down removes the fleet, whatever is left of it.
func Down(ctx context.Context, options Options) error {
	f, err := newFleet(options)
	if err != nil {
		return err
	}
	there, err := f.provider.List()
	if err != nil {
		return err
	}
	var failed error
	var mu sync.Mutex
	var group errgroup.Group
	for _, l := range layouts {
		if !slices.Contains(there, kindName(l.name)) {
			continue
		}
		group.Go(func() error {
			if err := f.provider.Delete(kindName(l.name), f.kubeconfigOf(l.name)); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(failed, removeNetwork(ctx), os.RemoveAll(f.dir()))
}

// Member returns the member of that name.
func (f *Fleet) Member(name string) *Cluster {
	for _, m := range f.Members {
		if m.Name == name {
			return m
		}
	}
	panic(fmt.Sprintf("the fleet has no member %s", name))
}

// Kubeconfig returns the path of the kubeconfig, with the contexts hub, eu-west and us-east.
func (f *Fleet) Kubeconfig() string { return filepath.Join(f.dir(), "kubeconfig") }

func (f *Fleet) dir() string { return filepath.Join(f.options.Root, ".kind") }

// record returns the path of the options that the fleet was started with.
func (f *Fleet) record() string { return filepath.Join(f.dir(), "fleet.json") }

func (f *Fleet) kubeconfigOf(name string) string { return filepath.Join(f.dir(), name+".kubeconfig") }

func (f *Fleet) log(began time.Time, what string) {
	f.options.Log("%s, after %s", what, time.Since(began).Round(time.Second/10))
}

// ensureNetwork creates the network: kind's default has IPv6, which not every machine allows.
func ensureNetwork(ctx context.Context) error {
	if _, err := run(ctx, "docker", "network", "inspect", network); err == nil {
		return nil
	}
	_, err := run(ctx, "docker", "network", "create", network)
	return err
}

func removeNetwork(ctx context.Context) error {
	if _, err := run(ctx, "docker", "network", "inspect", network); err != nil {
		return nil // there is none to remove
	}
	_, err := run(ctx, "docker", "network", "rm", network)
	return err
}
