package harness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vdi-fleet/vdi-fleet/test/harness/admission"
	"github.com/vdi-fleet/vdi-fleet/test/harness/hubservice"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kubeconfig"
	"github.com/vdi-fleet/vdi-fleet/test/harness/probe"
	"github.com/vdi-fleet/vdi-fleet/test/harness/proxy"
	"github.com/vdi-fleet/vdi-fleet/test/harness/workdir"
)

// Fleet is a hub and its members, each a real control plane, with the processes
// of vdi-fleet and the network between them.
type Fleet struct {
	// Dir holds logs/, pids/, clusters/NAME/, pki/ and kubeconfig.
	Dir string
	// Kubeconfig has a context for each cluster, hub and the members' names, and one
	// for each of Users.
	Kubeconfig string
	Hub        *Hub
	Members    []*Member
	// PKI makes certificates for the link.
	PKI *LinkPKI
	// Console has no replicas without Options.Console.
	Console *Console

	options Options
	// detachedBy is the executable of the fleet command if the fleet outlives this
	// process: see StartDetached.
	detachedBy string
	workdir    *workdir.Dir
	keeper     *keeper // nil unless KeepRunning
	stop       sync.Once
	stopErr    error
}

// Hub is the hub's control plane and the hub's own processes.
type Hub struct {
	ControlPlane *ControlPlane
	Replicas     []*Replica          // none if NoFleetProcesses
	Service      *hubservice.Service // nil if NoFleetProcesses

	stop       context.CancelFunc // ends the goroutines in background
	background sync.WaitGroup
	kubeconfig string     // of a detached fleet's sidecars
	sidecars   []*Process // of a detached fleet
}

// Replica is one process of the hub, and its Pod.
type Replica struct {
	*Process
	PodName     string
	LinkAddr    string
	MetricsAddr string
	ProbeAddr   string
}

// Member is a member's control plane, its agent, and its network to the hub.
type Member struct {
	Name string
	Spec MemberSpec
	// UID is that of its MemberCluster on the hub.
	UID          string
	ControlPlane *ControlPlane
	// Agent is the first replica of its agent, nil if NoFleetProcesses. Agents are all
	// of them: more than one with Options.Standbys.
	Agent  *Agent
	Agents []*Agent
	// Door is the process of its door, nil without one.
	Door  *Door
	Proxy proxy.Link

	leaseAddr    string       // where guards reach the agent
	leaseService *proxy.Proxy // nil if there is one replica, or there are no guards
	lead         memberLead   // the last known leader
	hadAgents    []*Agent     // those that ran before PowerOff
	proxyAddr    string
	proxyControl string
	sidecars     []*Process // of a detached fleet: proxy, provisioner
}

// Agent is one process of a member's agent.
type Agent struct {
	*Process
	PodName     string
	MetricsAddr string
	ProbeAddr   string
	// LeaseAddr is where it answers permission requests of guards, if there are Kubelets.
	LeaseAddr string
}

// Start starts a fleet and returns when every member is Ready. If it fails, it ends and
// removes all that it started.
func Start(ctx context.Context, options Options) (*Fleet, error) {
	return startFleet(ctx, options, "")
}

// startFleet starts a fleet, a detached one if detachedBy is set.
func startFleet(ctx context.Context, options Options, detachedBy string) (*Fleet, error) {
	options, err := options.withDefaults(detachedBy != "")
	if err != nil {
		return nil, fmt.Errorf("starting fleet: %w", err)
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, startTimeout)
		defer cancel()
	}
	dir, err := newWorkdir(options.Dir, options.Keep, detachedBy != "")
	if err != nil {
		return nil, fmt.Errorf("starting fleet: %w", err)
	}
	f := &Fleet{
		Dir: dir.Path, Kubeconfig: filepath.Join(dir.Path, "kubeconfig"),
		Hub: &Hub{}, options: options, detachedBy: detachedBy, workdir: dir,
	}
	if err := f.start(ctx); err != nil {
		return nil, fmt.Errorf("starting fleet: %w", errors.Join(err, f.Stop()))
	}
	if options.KeepRunning {
		f.keeper = keepRunning(f.restartable(), options.Progress)
	}
	return f, nil
}

func (f *Fleet) start(ctx context.Context) error {
	if err := f.plan(); err != nil {
		return err
	}
	if err := writeState(f.Dir, f.Members); err != nil {
		return err
	}
	if err := f.startControlPlanes(ctx); err != nil {
		return err
	}
	if err := f.mergeKubeconfigs(); err != nil {
		return err
	}
	if err := f.register(ctx); err != nil {
		return err
	}
	if !f.options.NoFleetProcesses {
		if err := f.startHubPods(ctx); err != nil {
			return err
		}
	}
	if err := f.startProxies(ctx); err != nil {
		return err
	}
	if err := writeState(f.Dir, f.Members); err != nil {
		return err
	}
	if f.options.NoFleetProcesses {
		return admission.Wait(ctx, f.Hub.ControlPlane.Applier, f.Hub.ControlPlane.Issuer)
	}
	if err := f.startHub(ctx); err != nil {
		return err
	}
	if err := errors.Join(startConsole(ctx, f), startDoors(ctx, f.Members), f.startAgents(ctx)); err != nil {
		return err
	}
	if f.options.NoWait {
		return nil
	}
	f.options.Progress("waiting for the members to be Ready")
	if err := f.WaitMembersReady(ctx); err != nil {
		return err
	}
	// Last, because they are usually in force by then.
	return admission.Wait(ctx, f.Hub.ControlPlane.Applier, f.Hub.ControlPlane.Issuer)
}

// plan creates all that only needs ports and files, before a process runs.
func (f *Fleet) plan() error {
	var err error
	if f.PKI, err = NewLinkPKI(filepath.Join(f.Dir, "pki")); err != nil {
		return err
	}
	root, err := Root()
	if err != nil {
		return err
	}
	charts := filepath.Join(root, "deploy", "charts")
	// A hub's cluster can be a member's too, and a member's a hub's: each has all CRDs.
	crds := []string{filepath.Join(charts, "vdi-hub/files/crds"), filepath.Join(charts, "vdi-agent/files/crds")}
	admission := filepath.Join(charts, "vdi-hub/files/admission")
	if f.Hub.ControlPlane, err = newControlPlane(f.hubOptions(crds, admission)); err != nil {
		return err
	}
	for _, spec := range f.options.MemberSpecs {
		cp, err := newControlPlane(f.memberOptions(spec, crds))
		if err != nil {
			return err
		}
		ports, err := workdir.ReservePorts(f.Dir, 2)
		if err != nil {
			return err
		}
		f.Members = append(f.Members, &Member{
			Name: spec.Name, Spec: spec, ControlPlane: cp,
			proxyAddr: localhost(ports[0]), proxyControl: localhost(ports[1]),
		})
	}
	if f.options.NoFleetProcesses {
		return nil
	}
	return f.planProcesses()
}

func (f *Fleet) hubOptions(crds []string, admission string) ControlPlaneOptions {
	namespaces := map[string]map[string]string{SystemNamespace: nil}
	for _, name := range f.options.sessionNamespaces() {
		namespaces[name] = nil
	}
	return ControlPlaneOptions{
		Name: "hub", NoScheduling: true, CRDDirs: crds, AdmissionDir: admission, Namespaces: namespaces,
		LowPriority: f.options.HubFirst, fleetDir: f.Dir, detach: f.detachedBy != "",
	}
}

func (f *Fleet) memberOptions(spec MemberSpec, crds []string) ControlPlaneOptions {
	namespaces := map[string]map[string]string{SystemNamespace: nil}
	for _, name := range f.options.Namespaces {
		namespaces[name] = map[string]string{AdmitSessionsLabel: "true"}
	}
	return ControlPlaneOptions{
		Name: spec.Name, CRDDirs: crds, Namespaces: namespaces, Nodes: spec.Nodes,
		Karpenter: spec.karpenter(), ClusterAutoscaler: spec.clusterAutoscaler(),
		Door: spec.Door, Kubelets: f.options.Kubelets, KubeletArgs: f.options.kubeletArgs(), fleetBin: f.detachedBy,
		LowPriority: f.options.HubFirst, fleetDir: f.Dir, detach: f.detachedBy != "",
	}
}

func (f *Fleet) startControlPlanes(ctx context.Context) error {
	f.options.Progress(fmt.Sprintf("starting %d control planes (logs in %s)", 1+len(f.Members), filepath.Join(f.Dir, "logs")))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := f.Hub.ControlPlane.start(ctx); err != nil {
			return err
		}
		f.options.Progress("hub: control plane is up")
		return errors.Join(authorizeHub(ctx, f.Hub.ControlPlane, f.options), authorizeUsers(ctx, f.Hub.ControlPlane, f.options.sessionNamespaces()))
	})
	for _, member := range f.Members {
		group.Go(func() error { return f.startMember(ctx, member) })
	}
	return group.Wait()
}

func (f *Fleet) startMember(ctx context.Context, member *Member) error {
	cp := member.ControlPlane
	if err := cp.start(ctx); err != nil {
		return err
	}
	count := member.Spec.nodeCount()
	if err := cp.WaitNodesReady(ctx, count); err != nil {
		return err
	}
	f.options.Progress(fmt.Sprintf("%s: control plane is up with %d nodes", member.Name, count))
	_, err := cp.AuthorizeAgent(ctx, f.options.Namespaces...)
	return err
}

// Stop ends every process and removes the directory, unless Options.Keep. It may be called
// twice, and for a fleet whose start has failed.
func (f *Fleet) Stop() error {
	f.stop.Do(func() {
		f.keeper.close()
		var errs []error
		for _, member := range f.Members {
			if link, ok := member.Proxy.(*proxy.Proxy); ok {
				errs = append(errs, link.Stop())
			}
			if member.leaseService != nil {
				errs = append(errs, member.leaseService.Stop())
			}
		}
		errs = append(errs, f.Console.stop())
		f.Hub.stopHubPods()
		for _, cp := range f.controlPlanes() {
			cp.stopLoops()
		}
		errs = append(errs, killAll(f.Processes()))
		f.stopErr = errors.Join(append(errs, f.workdir.Close())...)
	})
	return f.stopErr
}

// Processes returns all processes of the fleet, running or not.
func (f *Fleet) Processes() []*Process {
	var all []*Process
	for _, cp := range f.controlPlanes() {
		all = append(all, cp.Processes()...)
	}
	all = append(all, f.Hub.sidecars...)
	all = append(all, f.Hub.processes()...)
	all = append(all, f.Console.processes()...)
	for _, member := range f.Members {
		all = append(all, member.sidecars...)
		all = append(all, member.agentProcesses()...)
		all = append(all, member.doorProcesses()...)
	}
	return all
}

// Member returns the member of that name, or nil.
func (f *Fleet) Member(name string) *Member {
	for _, member := range f.Members {
		if member.Name == name {
			return member
		}
	}
	return nil
}

func (f *Fleet) controlPlanes() []*ControlPlane {
	var all []*ControlPlane
	if f.Hub.ControlPlane != nil {
		all = append(all, f.Hub.ControlPlane)
	}
	for _, member := range f.Members {
		all = append(all, member.ControlPlane)
	}
	return all
}

func (f *Fleet) mergeKubeconfigs() error {
	var files []string
	for _, cp := range f.controlPlanes() {
		files = append(files, cp.Kubeconfig)
	}
	for _, user := range Users {
		file, err := f.Hub.ControlPlane.WriteKubeconfig(user.Context, kubeconfig.User{Name: user.Name, Groups: user.Groups})
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	return kubeconfig.Merge(f.Kubeconfig, "hub", files)
}

// Leader returns the replica that listens for agents, nil if none does.
func (h *Hub) Leader(ctx context.Context) *Replica {
	for _, replica := range h.Replicas {
		if !replica.Running() || replica.paused() {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		err := probe.Listening(ctx, replica.LinkAddr)
		cancel()
		if err == nil {
			return replica
		}
	}
	return nil
}

// backend returns the address for a new connection of an agent, "" if there is none.
func (h *Hub) backend() string {
	if h.Service == nil {
		return ""
	}
	return h.Service.Backend()
}
