package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// namespace of all sessions.
const namespace = "desktops"

// nodesPerMember is how many nodes each member has.
const nodesPerMember = 6

// Templates of the workload: one that may be restarted elsewhere, and one with a
// home, that may not.
const (
	plain = "faults-plain"
	homed = "faults-homed"
)

// stage is a fleet with all that breaks and watches it. Scenarios share it, one
// after another.
type stage struct {
	fleet      *harness.Fleet
	watch      *watcher
	supervisor *supervisor
	// wires are the network of each member, and apiWires what is between each
	// replica of the hub, or of the replicated agent, and its API server.
	wires, apiWires map[string]*wire

	// kubelets are what really ran; nil unless the kind has them.
	kubelets *kubelets
	// off are the members without power, buried those that never get it back.
	off, buried map[*harness.Member]bool

	factor float64
	seed   uint64
	kind   kind
	say    func(format string, args ...any)
}

// start starts a fleet whose agents dial through wires of ours.
func start(ctx context.Context, factor float64, seed uint64, of kind, say func(string, ...any)) (*stage, error) {
	if err := v1alpha1.AddToScheme(clientgoscheme.Scheme); err != nil {
		return nil, err
	}
	ctrl.SetLogger(logr.Discard()) // of the watches' own libraries
	if of.kubelets {
		factor *= failoverPace
	}
	s := &stage{
		factor: factor, seed: seed, kind: of, say: say,
		wires: map[string]*wire{}, apiWires: map[string]*wire{}, off: map[*harness.Member]bool{}, buried: map[*harness.Member]bool{},
	}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *stage) open(ctx context.Context) (err error) {
	s.fleet, err = harness.Start(ctx, harness.Options{
		NodesPerMember: nodesPerMember, GPUNodes: -1, TimeFactor: s.factor, NoWait: true, Enrol: s.kind.enrol, Namespaces: []string{namespace},
		Kubelets: s.kind.kubelets, Standbys: map[string]int{replicated: 1},
		Progress: func(step string) { s.say("%s", step) },
	})
	if err != nil {
		return err
	}
	for _, m := range s.fleet.Members {
		w, err := s.wire(m)
		if err != nil {
			return err
		}
		s.wires[m.Name] = w
	}
	for _, replica := range s.fleet.Hub.Replicas {
		if err := s.apiWire(replica.Process); err != nil {
			return err
		}
	}
	for _, a := range s.fleet.Member(replicated).Agents {
		if err := s.apiWire(a.Process); err != nil {
			return err
		}
	}
	s.supervisor = supervise(s.fleet, s.say)
	if s.watch, err = watchFleet(s.fleet); err != nil {
		return err
	}
	s.watch.heard(func(c *checker, _ time.Time) { c.patience, c.logged = s.patience(), s.kind.kubelets })
	if s.kind.kubelets {
		s.kubelets = observe(s.fleet.ContainerLogs(), s.watch)
	}
	if err := s.templates(ctx); err != nil {
		return err
	}
	return s.available(ctx, plain, homed)
}

func (s *stage) close() error {
	if s.supervisor != nil {
		s.supervisor.close()
	}
	if s.kubelets != nil {
		s.kubelets.close()
	}
	if s.watch != nil {
		s.watch.close()
	}
	for _, w := range s.allWires() {
		w.close()
	}
	if s.fleet == nil {
		return nil
	}
	return s.fleet.Stop()
}

// replicated is the member whose agent has two replicas, as the chart ships them.
const replicated = "ap-south"

// hubAddress is the agents' flag.
const hubAddress = "--hub-address="

// wire puts a wire of ours between a member's agents and where they dial.
func (s *stage) wire(m *harness.Member) (*wire, error) {
	at := slices.IndexFunc(m.Agent.Spec.Args, func(arg string) bool { return strings.HasPrefix(arg, hubAddress) })
	if at < 0 {
		return nil, fmt.Errorf("the agent of %s is started without %s", m.Name, hubAddress)
	}
	flag := m.Agent.Spec.Args[at]
	w, err := newWire(func() string { return strings.TrimPrefix(flag, hubAddress) }, s.seed)
	if err != nil {
		return nil, err
	}
	for _, a := range m.Agents {
		at := slices.Index(a.Spec.Args, flag)
		if at < 0 {
			w.close()
			return nil, fmt.Errorf("the agents of %s dial different hubs", m.Name)
		}
		a.Spec.Args[at] = hubAddress + w.addr()
		// Asked to end it releases its lock, and need not wait for it.
		if err := a.Restart(); err != nil {
			w.close()
			return nil, err
		}
	}
	return w, nil
}

// kubeconfig is a flag of hub and agents.
const kubeconfig = "--kubeconfig="

// apiWire puts a wire between a process and its API server.
func (s *stage) apiWire(p *harness.Process) error {
	at := slices.IndexFunc(p.Spec.Args, func(arg string) bool { return strings.HasPrefix(arg, kubeconfig) })
	if at < 0 {
		return fmt.Errorf("%s is started without %s", p.Spec.Name, kubeconfig)
	}
	path := strings.TrimPrefix(p.Spec.Args[at], kubeconfig)
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return err
	}
	for _, cluster := range config.Clusters {
		to := strings.TrimPrefix(cluster.Server, "https://")
		w, err := newWire(func() string { return to }, s.seed)
		if err != nil {
			return err
		}
		s.apiWires[p.Spec.Name] = w
		cluster.Server = "https://" + w.addr()
	}
	path += "." + p.Spec.Name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return err
	}
	p.Spec.Args[at] = kubeconfig + path
	return p.Restart()
}

func (s *stage) allWires() []*wire {
	return append(slices.Collect(maps.Values(s.wires)), slices.Collect(maps.Values(s.apiWires))...)
}

func (s *stage) templates(ctx context.Context) error {
	small := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	size := resource.MustParse("1Gi")
	for name, home := range map[string]v1alpha1.TemplateHome{plain: {}, homed: {Mode: v1alpha1.HomePerSession, Size: &size}} {
		t := &v1alpha1.VDITemplate{ObjectMeta: metav1.ObjectMeta{Name: name}}
		t.Spec.Image, t.Spec.Port, t.Spec.Home = "registry.example.com/desktop:1", 6901, home
		t.Spec.Resources.Default, t.Spec.Timeout.Default, t.Spec.Timeout.Max = small, "8h", "12h"
		if err := s.watch.hub.Create(ctx, t); err != nil {
			return fmt.Errorf("making templates: %w", err)
		}
	}
	return nil
}

// available waits until every member can run templates.
func (s *stage) available(ctx context.Context, templates ...string) error {
	return poll(ctx, 2*time.Minute, func(ctx context.Context) error {
		for _, name := range templates {
			t := &v1alpha1.VDITemplate{}
			if err := s.watch.hub.Get(ctx, client.ObjectKey{Name: name}, t); err != nil {
				return err
			}
			if int(t.Status.AvailableClusters) < len(s.fleet.Members) {
				return fmt.Errorf("template %s can run in %d members", name, t.Status.AvailableClusters)
			}
		}
		return nil
	})
}

// scaled is a time of production as this fleet has it.
func (s *stage) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * s.factor)
}

// poll tries until it works; the error is the last one, but that of a try which
// the end of the time has cut short says less than the one before.
func poll(ctx context.Context, limit time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var err error
	for {
		once, done := context.WithTimeout(ctx, 5*time.Second)
		last := try(once)
		done()
		if last == nil {
			return nil
		}
		if err == nil || ctx.Err() == nil && !errors.Is(last, context.DeadlineExceeded) {
			err = last
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %w", limit.Round(100*time.Millisecond), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// draw is the random source of a scenario: the same for the same seed, whichever
// scenarios run besides.
func (s *stage) draw(scenario string) *rand.Rand {
	var h uint64 = 14695981039346656037 // FNV-1a
	for _, b := range []byte(scenario) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(s.seed, h))
}
