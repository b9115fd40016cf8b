package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/vdi-fleet/vdi-fleet/test/harness/pki"
	"github.com/vdi-fleet/vdi-fleet/test/harness/provisioner"
	"github.com/vdi-fleet/vdi-fleet/test/harness/workdir"
)

// ControlPlane is one real Kubernetes control plane without kubelets: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, and KWOK, which plays
// the kubelets of simulated nodes.
type ControlPlane struct {
	Name string
	// Dir holds what is this control plane's own: data, certificates,
	// kubeconfigs, audit log.
	Dir string
	// Kubeconfig is the file of the administrator (system:masters).
	Kubeconfig string
	// Config is the administrator's too.
	Config *rest.Config
	// CA signs every client of this API server and nobody else's.
	CA *pki.CA

	Etcd              *Process
	APIServer         *Process
	ControllerManager *Process // nil if APIOnly
	Scheduler         *Process // nil if APIOnly or NoScheduling
	KWOK              *Process // nil if APIOnly or NoScheduling
	Kubelet           *Process // nil unless Kubelets

	// Client and Dynamic are the administrator's.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface

	options     ControlPlaneOptions
	ports       controlPlanePorts
	workdir     *workdir.Dir // nil if it is a fleet's
	provisioner *provisioner.Provisioner
	scraper     scraperToken
	// restored are told when etcd was put back to an earlier time.
	restored []func(context.Context) error
}

// ControlPlaneOptions say what a control plane is made of. The zero value is a
// whole one without nodes, in a directory of its own that Stop removes.
type ControlPlaneOptions struct {
	// Name is its context in the kubeconfig; default "cluster".
	Name string
	// APIOnly leaves out controller manager, scheduler, KWOK and provisioner.
	APIOnly bool
	// NoScheduling leaves out scheduler, KWOK and provisioner: a cluster whose
	// only Pods are made by the harness, as the hub's.
	NoScheduling bool
	// CRDDirs are directories of CRDs, installed before the controller manager
	// starts, so that garbage collection knows them from the beginning.
	CRDDirs []string
	// AdmissionDir is a directory of admission policies, applied after the CRDs.
	// StartControlPlane waits until they are in force, by WaitAdmission.
	AdmissionDir string
	// Nodes to simulate.
	Nodes []NodeGroup
	// Kubelets is as in Options.
	Kubelets    bool
	KubeletArgs []string
	// Namespaces to create, with labels.
	Namespaces map[string]map[string]string
	// APIServerArgs are appended to kube-apiserver's.
	APIServerArgs []string
	// Dir is where everything goes; default a new temporary directory.
	Dir string
	// Keep leaves the directory in place when all has stopped.
	Keep bool

	fleetDir string // holds logs and pids; set by a Fleet
	fleetBin string // the fleet command, if not bin/fleet
	detach   bool
}

type controlPlanePorts struct{ etcd, etcdPeer, api int }

// StartControlPlane starts a single control plane and returns when it is ready
// for use. Stop it; if this process ends first it goes too.
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
		if err := cp.WaitAdmission(ctx); err != nil {
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
	cp := &ControlPlane{
		Name:    options.Name,
		Dir:     filepath.Join(options.fleetDir, "clusters", options.Name),
		options: options,
		ports:   controlPlanePorts{etcd: ports[0], etcdPeer: ports[1], api: ports[2]},
	}
	if err := os.MkdirAll(cp.Dir, 0o755); err != nil {
		return nil, fmt.Errorf("making %s: %w", cp.Dir, err)
	}
	if cp.CA, err = pki.NewCA(cp.Name); err != nil {
		return nil, err
	}
	if err := cp.writeFiles(); err != nil {
		return nil, err
	}
	cp.Kubeconfig = cp.componentKubeconfig(adminIdentity)
	return cp, cp.connect()
}

// URL is the API server's.
func (cp *ControlPlane) URL() string {
	return "https://" + localhost(cp.ports.api)
}

// AuditLog is the API server's, with a line for every write. See CountWrites.
func (cp *ControlPlane) AuditLog() string { return filepath.Join(cp.Dir, "audit.log") }

func (cp *ControlPlane) connect() error {
	config, err := cp.ConfigFor(adminIdentity.user, adminIdentity.groups...)
	if err != nil {
		return err
	}
	cp.Config = config
	if cp.Client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("making client: %w", err)
	}
	if cp.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("making client: %w", err)
	}
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
	for _, nodes := range cp.options.Nodes {
		group.Go(func() error { return cp.AddNodes(ctx, nodes) })
	}
	for name, labels := range cp.options.Namespaces {
		group.Go(func() error { return cp.EnsureNamespace(ctx, name, labels) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("%s: %w", cp.Name, err)
	}
	return nil
}

func (cp *ControlPlane) startAPI(ctx context.Context) error {
	var err error
	if cp.Etcd, err = cp.process("etcd", cp.etcdArgs()); err != nil {
		return err
	}
	if cp.APIServer, err = cp.process("kube-apiserver", cp.apiServerArgs()); err != nil {
		return err
	}
	if err := cp.Etcd.Start(); err != nil {
		return err
	}
	// kube-apiserver would wait for etcd too, but in steps of a second.
	if err := cp.Etcd.WaitUntil(ctx, dial(cp.ports.etcd)); err != nil {
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
	if cp.ControllerManager, err = cp.startComponent("kube-controller-manager", cp.controllerManagerArgs()); err != nil {
		return err
	}
	if !cp.options.NoScheduling {
		if cp.Scheduler, err = cp.startComponent("kube-scheduler", cp.schedulerArgs()); err != nil {
			return err
		}
		if cp.KWOK, err = cp.startComponent("kwok", cp.kwokArgs()); err != nil {
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
		return errors.Join(err, diedUnasked(cp.Processes()...))
	})
}

func (cp *ControlPlane) startComponent(name string, args []string) (*Process, error) {
	process, err := cp.process(name, args)
	if err != nil {
		return nil, err
	}
	return process, process.Start()
}

// process returns a component that is not started yet. It is named for its
// cluster in logs and pids.
func (cp *ControlPlane) process(component string, args []string) (*Process, error) {
	path, err := binary(component)
	if err != nil {
		return nil, err
	}
	return NewProcess(ProcessSpec{
		Name:   cp.Name + "-" + component,
		Path:   path,
		Args:   args,
		Env:    SpareCPU(),
		Dir:    cp.options.fleetDir,
		Detach: cp.options.detach,
	}), nil
}

// Processes are all that were started, in the order of starting.
func (cp *ControlPlane) Processes() []*Process {
	var all []*Process
	for _, process := range []*Process{cp.Etcd, cp.APIServer, cp.ControllerManager, cp.Scheduler, cp.KWOK, cp.Kubelet} {
		if process != nil {
			all = append(all, process)
		}
	}
	return all
}

// Stop ends every process and removes the directory. It may be called twice.
func (cp *ControlPlane) Stop() error {
	cp.provisioner.Stop()
	err := killAll(cp.Processes())
	if cp.workdir != nil {
		err = errors.Join(err, cp.workdir.Close())
	}
	return err
}

// killAll ends processes whose data nobody wants: a control plane that is thrown
// away need not say goodbye.
func killAll(processes []*Process) error {
	var group errgroup.Group
	for _, process := range processes {
		group.Go(process.Kill)
	}
	return group.Wait()
}

func dial(port int) func(context.Context) error {
	return func(ctx context.Context) error { return dialAddress(ctx, localhost(port)) }
}

func dialAddress(ctx context.Context, address string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err
}
