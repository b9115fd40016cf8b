package stage

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/faults/watch"
	"github.com/vdi-fleet/vdi-fleet/test/faults/workload"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// NodesPerMember is the number of nodes of each member that does not add them.
const NodesPerMember = 6

// Stage is a fleet with what breaks and observes it. Scenarios share it, one after another.
type Stage struct {
	Fleet      *harness.Fleet
	Watch      *watch.Watcher
	Supervisor *Supervisor
	// Links are the network of each member, and APILinks that between each replica of the hub, or
	// of the replicated agent, and its API server.
	Links, APILinks map[string]*netem.Proxy

	// Kubelets reads the kubelets' logs; nil unless the kind has them.
	Kubelets *watch.RunLog
	// PoweredOff are the members without power, Removed those that never return.
	PoweredOff, Removed map[*harness.Member]bool

	Factor float64
	Seed   uint64
	Kind   Kind
	Logf   func(format string, args ...any)
}

// Start starts a fleet whose agents dial through proxies.
func Start(ctx context.Context, factor float64, seed uint64, of Kind, logf func(string, ...any)) (*Stage, error) {
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return nil, err
	}
	ctrl.SetLogger(logr.Discard()) // of the libraries of the watches
	if of.Kubelets {
		factor *= failoverTimeFactor
	}
	s := &Stage{
		Factor: factor, Seed: seed, Kind: of, Logf: logf,
		Links: map[string]*netem.Proxy{}, APILinks: map[string]*netem.Proxy{}, PoweredOff: map[*harness.Member]bool{}, Removed: map[*harness.Member]bool{},
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Stage) open(ctx context.Context) (err error) {
	var members []harness.MemberSpec
	if s.Kind.Growing {
		members = growingMembers()
	}
	consoles := 0
	if s.Kind.Consoles {
		consoles = 2
	}
	s.Fleet, err = harness.Start(ctx, harness.Options{
		MemberSpecs: members, NodesPerMember: NodesPerMember, GPUNodes: -1, TimeFactor: s.Factor, NoWait: true, Enroll: s.Kind.Enroll, Namespaces: []string{workload.Namespace},
		Console:  harness.ConsoleOptions{Replicas: consoles, Doors: s.Kind.Doors},
		Kubelets: s.Kind.Kubelets, Standbys: map[string]int{Replicated: 1},
		Progress: func(step string) { s.Logf("%s", step) },
	})
	if err != nil {
		return err
	}
	for _, m := range s.Fleet.Members {
		w, err := s.agentProxy(m)
		if err != nil {
			return err
		}
		s.Links[m.Name] = w
	}
	for _, replica := range s.Fleet.Hub.Replicas {
		if err := s.apiProxy(replica.Process); err != nil {
			return err
		}
	}
	for _, a := range s.Fleet.Member(Replicated).Agents {
		if err := s.apiProxy(a.Process); err != nil {
			return err
		}
	}
	s.Supervisor = startSupervisor(s.Fleet, s.Logf)
	if s.Watch, err = watch.Start(s.Fleet); err != nil {
		return err
	}
	s.Watch.With(func(c *checker.Checker, _ time.Time) { c.Configure(s.minimumOutage(), s.Kind.Kubelets) })
	if s.Kind.Kubelets {
		s.Kubelets = watch.FollowLogs(s.Fleet.ContainerLogs(), s.Watch)
	}
	if s.Kind.Growing {
		for _, m := range s.Fleet.Members {
			if err := s.LimitNodes(ctx, m.Name, 1); err != nil {
				return err
			}
		}
	}
	if err := s.templates(ctx); err != nil {
		return err
	}
	return s.AwaitTemplates(ctx, workload.PlainTemplate, workload.HomeTemplate)
}

// Close stops everything.
func (s *Stage) Close() error {
	if s.Supervisor != nil {
		s.Supervisor.close()
	}
	if s.Kubelets != nil {
		s.Kubelets.Close()
	}
	if s.Watch != nil {
		s.Watch.Close()
	}
	for _, w := range s.Proxies() {
		w.Close()
	}
	if s.Fleet == nil {
		return nil
	}
	return s.Fleet.Stop()
}

// Replicated is the member whose agent has two replicas, as the chart installs them.
const Replicated = "ap-south"

// Snapshot reads what the API servers hold now.
func (s *Stage) Snapshot(ctx context.Context) (*watch.Snapshot, error) {
	return s.Watch.Snapshot(ctx, s.IsRemoved)
}

// Scaled returns a production time in the time of this fleet.
func (s *Stage) Scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * s.Factor)
}

// Draw returns the random source of a scenario: the same for the same seed, whichever other
// scenarios run.
func (s *Stage) Draw(scenario string) *rand.Rand {
	var h uint64 = 14695981039346656037 // FNV-1a
	for _, b := range []byte(scenario) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(s.Seed, h))
}
