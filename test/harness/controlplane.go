package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/vdi-fleet/vdi-fleet/test/harness/admission"
	"github.com/vdi-fleet/vdi-fleet/test/harness/apply"
	"github.com/vdi-fleet/vdi-fleet/test/harness/clusterautoscaler"
	"github.com/vdi-fleet/vdi-fleet/test/harness/component"
	"github.com/vdi-fleet/vdi-fleet/test/harness/karpenter"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kubeconfig"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kwok"
	"github.com/vdi-fleet/vdi-fleet/test/harness/pki"
	"github.com/vdi-fleet/vdi-fleet/test/harness/probe"
	"github.com/vdi-fleet/vdi-fleet/test/harness/provisioner"
	"github.com/vdi-fleet/vdi-fleet/test/harness/scrape"
	"github.com/vdi-fleet/vdi-fleet/test/harness/workdir"
)

// ControlPlane is one real Kubernetes control plane without kubelets: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, and KWOK, which simulates nodes. It has the
// processes; package component has their arguments and files.
type ControlPlane struct {
	// Issuer issues credentials for users of this API server.
	*kubeconfig.Issuer
	// Applier has the clients of the administrator.
	*apply.Applier
	// Nodes are the simulated nodes.
	*kwok.Nodes
	// Kubeconfig is the path of the administrator's kubeconfig (system:masters).
	Kubeconfig string
	// Config is the administrator's client configuration.
	Config *rest.Config

	Etcd              *Process
	APIServer         *Process
	ControllerManager *Process   // nil if APIOnly
	Scheduler         *Process   // nil if APIOnly or NoScheduling
	KWOK              *Process   // nil if APIOnly or NoScheduling
	Kubelet           *Process   // nil unless Kubelets
	Karpenter         *Karpenter // nil unless ControlPlaneOptions.Karpenter
	// ClusterAutoscaler runs in this process; nil unless ControlPlaneOptions.ClusterAutoscaler.
	ClusterAutoscaler *clusterautoscaler.Autoscaler

	options     ControlPlaneOptions
	components  *component.Cluster
	workdir     *workdir.Dir // nil if it is a fleet's
	provisioner *provisioner.Provisioner
	scraper     *scrape.Scraper
	// restored are called after RestoreEtcd.
	restored []func(context.Context) error
}

// ControlPlaneOptions configure a control plane. The zero value is a complete one without
// nodes, in a directory of its own that Stop removes.
type ControlPlaneOptions struct {
	// Name is its context in the kubeconfig; default "cluster".
	Name string
	// APIOnly omits controller manager, scheduler, KWOK and provisioner.
	APIOnly bool
	// NoScheduling omits scheduler, KWOK and provisioner, for a cluster whose only Pods the
	// harness creates, such as the hub's.
	NoScheduling bool
	// CRDDirs are directories of CRDs, installed before the controller manager
	// starts, so that garbage collection covers them from the beginning.
	CRDDirs []string
	// Door grants the member's agent what a door needs, and the door its roles.
	Door bool
	// AdmissionDir is a directory of admission policies, applied after the CRDs.
	// StartControlPlane waits until they are in force, by package admission.
	AdmissionDir string
	// Nodes to simulate.
	Nodes []kwok.NodeGroup
	// Kubelets is as in Options.
	Kubelets    bool
	KubeletArgs []string
	// Karpenter runs an autoscaler that adds nodes for pending Pods. Its region defaults to
	// Name.
	Karpenter *karpenter.Options
	// ClusterAutoscaler simulates one that adds nodes for pending Pods.
	ClusterAutoscaler *clusterautoscaler.Options
	// Namespaces to create, with labels.
	Namespaces map[string]map[string]string
	// APIServerArgs are appended to kube-apiserver's.
	APIServerArgs []string
	// Dir holds all files; default a new temporary directory.
	Dir string
	// Keep keeps the directory after Stop.
	Keep bool

	// LowPriority is as HubFirst in Options.
	LowPriority bool

	fleetDir string // holds logs and pids; set by a Fleet
	fleetBin string // the fleet command, if not bin/fleet
	detach   bool
}

// StartControlPlane starts a single control plane and returns when it is ready
// for use. Stop ends it, and so does the end of this process.
func StartControlPlane(ctx context.Context, options ControlPlaneOptions) (*ControlPlane, error) {
	dir, err := newWorkdir(options.Dir, options.Keep, false)
	if err != nil {
		return nil, err
	}
	options.fleetDir = dir.Path
	cp, err := newControlPlane(options)
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	cp.workdir = dir
	if err := cp.start(ctx); err != nil {
		return nil, errors.Join(err, cp.Stop())
	}
	if options.AdmissionDir != "" {
		if err := admission.Wait(ctx, cp.Applier, cp.Issuer); err != nil {
			return nil, errors.Join(err, cp.Stop())
		}
	}
	return cp, nil
}

func newControlPlane(options ControlPlaneOptions) (*ControlPlane, error) {
	if options.Name == "" {
		options.Name = "cluster"
	}
	ports, err := workdir.ReservePorts(options.fleetDir, 3)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(options.fleetDir, "clusters", options.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making %s: %w", dir, err)
	}
	ca, err := pki.NewCA(options.Name)
	if err != nil {
		return nil, err
	}
	cp := attachControlPlane(options.Name, options.fleetDir)
	cp.options, cp.CA, cp.URL = options, ca, "https://"+localhost(ports[2])
	cp.components = &component.Cluster{
		Issuer: cp.Issuer, Ports: component.Ports{Etcd: ports[0], EtcdPeer: ports[1], API: ports[2]},
		APIOnly: options.APIOnly, NoScheduling: options.NoScheduling, Kubelets: options.Kubelets,
		ExtraAPIServerArgs: options.APIServerArgs, AuditedUsers: []string{HubUser, ConsoleUser, AgentUser, DoorUser},
	}
	if err := cp.components.WriteFiles(); err != nil {
		return nil, err
	}
	if err := cp.connect(); err != nil {
		return nil, err
	}
	cp.Karpenter, err = newKarpenter(cp)
	return cp, err
}

// attachControlPlane returns the control plane of that name in a fleet's directory,
// without its processes.
func attachControlPlane(name, fleetDir string) *ControlPlane {
	issuer := &kubeconfig.Issuer{Name: name, Dir: filepath.Join(fleetDir, "clusters", name)}
	return &ControlPlane{
		Issuer: issuer, Kubeconfig: issuer.KubeconfigPath(component.Admin),
		options: ControlPlaneOptions{Name: name, fleetDir: fleetDir},
	}
}

// AuditLog returns the file of the API server's audit log, with a line for every write.
// See CountWrites.
func (cp *ControlPlane) AuditLog() string { return cp.components.AuditLog() }

// connect makes the clients of the administrator.
func (cp *ControlPlane) connect() (err error) {
	if cp.Config, err = kubeconfig.Load(cp.Kubeconfig); err != nil {
		return err
	}
	cp.Applier, err = apply.New(cp.Config, func(ctx context.Context, check func(context.Context) error) error {
		return cp.APIServer.WaitUntil(ctx, check)
	})
	if err != nil {
		return err
	}
	cp.Nodes = kwok.New(cp.Client, func(ctx context.Context, check func(context.Context) error) error {
		return cp.KWOK.WaitUntil(ctx, check)
	})
	cp.scraper = scrape.New(cp.Applier, SystemNamespace)
	return nil
}

func (cp *ControlPlane) start(ctx context.Context) error {
	if err := cp.startAPI(ctx); err != nil {
		return err
	}
	for _, dir := range cp.options.CRDDirs {
		if err := cp.InstallCRDs(ctx, dir); err != nil {
			return fmt.Errorf("%s: %w", cp.Name, err)
		}
	}
	if err := cp.Karpenter.installCRDs(ctx, cp); err != nil {
		return fmt.Errorf("%s: %w", cp.Name, err)
	}
	if cp.options.AdmissionDir != "" {
		if err := cp.ApplyFile(ctx, cp.options.AdmissionDir); err != nil {
			return fmt.Errorf("%s: %w", cp.Name, err)
		}
	}
	if !cp.options.APIOnly {
		if err := cp.startControllers(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, like := range cp.options.Nodes {
		group.Go(func() error { return cp.AddNodes(ctx, like) })
	}
	for name, labels := range cp.options.Namespaces {
		group.Go(func() error { return cp.EnsureNamespace(ctx, name, labels) })
	}
	group.Go(func() error { return cp.Karpenter.startFirst(ctx) })
	group.Go(func() error { return startClusterAutoscaler(ctx, cp) })
	if err := group.Wait(); err != nil {
		return fmt.Errorf("%s: %w", cp.Name, err)
	}
	return nil
}

func (cp *ControlPlane) startAPI(ctx context.Context) error {
	var err error
	if cp.Etcd, err = cp.process("etcd", cp.components.EtcdArgs()); err != nil {
		return err
	}
	if cp.APIServer, err = cp.process("kube-apiserver", cp.components.APIServerArgs()); err != nil {
		return err
	}
	return cp.runAPI(ctx)
}

// runAPI starts etcd and kube-apiserver and returns when they are ready.
func (cp *ControlPlane) runAPI(ctx context.Context) error {
	if err := cp.Etcd.Start(); err != nil {
		return err
	}
	// kube-apiserver would wait for etcd too, but in steps of a second.
	if err := cp.Etcd.WaitUntil(ctx, func(ctx context.Context) error {
		return probe.Listening(ctx, localhost(cp.components.Ports.Etcd))
	}); err != nil {
		return err
	}
	if err := cp.APIServer.Start(); err != nil {
		return err
	}
	return cp.WaitAPI(ctx)
}

// WaitAPI waits until the API server is ready.
func (cp *ControlPlane) WaitAPI(ctx context.Context) error {
	return cp.APIServer.WaitUntil(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		return cp.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

func (cp *ControlPlane) startControllers(ctx context.Context) error {
	if err := cp.Apply(ctx, []byte(defaults)); err != nil {
		return err
	}
	var err error
	if cp.ControllerManager, err = cp.startComponent("kube-controller-manager", cp.components.ControllerManagerArgs()); err != nil {
		return err
	}
	if !cp.options.NoScheduling {
		if cp.Scheduler, err = cp.startComponent("kube-scheduler", cp.components.SchedulerArgs()); err != nil {
			return err
		}
		if cp.KWOK, err = cp.startComponent("kwok", cp.components.KWOKArgs()); err != nil {
			return err
		}
		if err := cp.startKubelet(); err != nil {
			return err
		}
		if !cp.options.detach {
			if err := cp.startProvisioner(ctx); err != nil {
				return err
			}
		}
	}
	// The controller manager works once it has made a service account.
	return cp.ControllerManager.WaitUntil(ctx, func(ctx context.Context) error {
		_, err := cp.Client.CoreV1().ServiceAccounts("default").Get(ctx, "default", getOptions)
		return errors.Join(err, diedUnexpectedly(cp.Processes()...))
	})
}

func (cp *ControlPlane) startComponent(name string, args []string) (*Process, error) {
	process, err := cp.process(name, args)
	if err != nil {
		return nil, err
	}
	return process, process.Start()
}

// lowPriority is the niceness of control planes with LowPriority: whatever else can run takes their place.
const lowPriority = "19"

// process returns a component that is not started yet. It is named for its
// cluster in logs and pids.
func (cp *ControlPlane) process(component string, args []string) (*Process, error) {
	path, err := binary(component)
	if err != nil {
		return nil, err
	}
	if cp.options.LowPriority {
		path, args = "/usr/bin/nice", append([]string{"-n", lowPriority, path}, args...)
	}
	return NewProcess(ProcessSpec{
		Name:   cp.Name + "-" + component,
		Path:   path,
		Args:   args,
		Env:    spareCPU(component),
		Dir:    cp.options.fleetDir,
		Detach: cp.options.detach,
	}), nil
}

// Processes returns the processes that exist, in the order of their start.
func (cp *ControlPlane) Processes() []*Process {
	var all []*Process
	for _, process := range []*Process{cp.Etcd, cp.APIServer, cp.ControllerManager, cp.Scheduler, cp.KWOK, cp.Kubelet, cp.Karpenter.process()} {
		if process != nil {
			all = append(all, process)
		}
	}
	return all
}

// Stop ends every process and removes the directory. It may be called twice.
func (cp *ControlPlane) Stop() error {
	cp.stopLoops()
	err := killAll(cp.Processes())
	if cp.workdir != nil {
		err = errors.Join(err, cp.workdir.Close())
	}
	return err
}

// stopLoops ends what runs in this process.
func (cp *ControlPlane) stopLoops() {
	cp.provisioner.Stop()
	cp.ClusterAutoscaler.Stop()
}

// killAll kills processes whose data is not needed any more.
func killAll(processes []*Process) error {
	var group errgroup.Group
	for _, process := range processes {
		group.Go(process.Kill)
	}
	return group.Wait()
}
