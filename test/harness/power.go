package harness

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/vdi-fleet/vdi-fleet/test/harness/component"
	"github.com/vdi-fleet/vdi-fleet/test/harness/kubelet"
)

// kubeletDelay is the default time that a desktop takes to open its port and to save its
// work, before scaling.
const kubeletDelay = 200 * time.Millisecond

// leasesWait is how long a new KWOK may take to acquire the leases of the nodes.
const leasesWait = 10 * time.Second

func (o Options) kubeletArgs() []string {
	delay := time.Duration(float64(kubeletDelay) * o.TimeFactor).String()
	return append([]string{"--start-delay=" + delay, "--stop-delay=" + delay}, o.Args.Kubelets...)
}

// startKubelet starts the process that simulates the kubelets of all nodes, if
// ControlPlaneOptions.Kubelets.
func (cp *ControlPlane) startKubelet() error {
	if !cp.options.Kubelets {
		return nil
	}
	guard, err := binary("agent")
	if err != nil {
		return err
	}
	path := cp.options.fleetBin
	if path == "" {
		if path, err = binary("fleet"); err != nil {
			return err
		}
	}
	cp.Kubelet = NewProcess(ProcessSpec{
		Name: cp.Name + kubeletSuffix, Path: path, Dir: cp.options.fleetDir, Detach: cp.options.detach,
	})
	cp.Kubelet.Spec.Args = append([]string{
		"kubelet", "--kubeconfig=" + cp.KubeconfigPath(component.Kubelet), "--member=" + cp.Name,
		"--log=" + cp.ContainerLog(), "--guard=" + guard,
	}, cp.options.KubeletArgs...)
	return cp.Kubelet.Start()
}

// ContainerLog returns the file that records each start and end of a container of the nodes,
// if they have kubelets: see test/harness/kubelet and test/observer. It is independent of the
// API server.
func (cp *ControlPlane) ContainerLog() string { return containerLog(cp.options.fleetDir, cp.Name) }

func containerLog(fleetDir, name string) string {
	return filepath.Join(fleetDir, "containers", name+".jsonl")
}

// ContainerLogs returns the logs of all members.
func (f *Fleet) ContainerLogs() []string {
	var logs []string
	for _, member := range f.Members {
		logs = append(logs, member.ControlPlane.ContainerLog())
	}
	return logs
}

// RestartKWOK kills KWOK and starts it again. It deletes the nodes' leases, since the new
// process would wait until they expire.
func (cp *ControlPlane) RestartKWOK(ctx context.Context) error {
	if err := cp.KWOK.Kill(); err != nil {
		return err
	}
	leases := cp.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	before, err := leases.List(ctx, metav1.ListOptions{})
	if err == nil {
		err = leases.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
	}
	if err != nil {
		return fmt.Errorf("restarting KWOK: deleting node leases: %w", err)
	}
	if err := cp.KWOK.Start(); err != nil {
		return err
	}
	// KWOK may never start a Pod that is bound to a node before it has the node's lease. That of a node which is gone
	// does not come back.
	_ = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, leasesWait, true, func(ctx context.Context) (bool, error) {
		now, err := leases.List(ctx, metav1.ListOptions{})
		return err == nil && len(now.Items) >= len(before.Items), nil
	})
	return nil
}

// PowerOffNodes cuts the power of all nodes and of what runs there, while the control plane
// keeps running. KWOK stops renewing the nodes' leases.
func (cp *ControlPlane) PowerOffNodes() error {
	return cutPower([]*Process{cp.Kubelet, cp.KWOK}, cp.ContainerLog(), cp.Name)
}

// PowerOnNodes starts the nodes again, without the containers that ran there.
func (cp *ControlPlane) PowerOnNodes(ctx context.Context) error {
	if err := cp.RestartKWOK(ctx); err != nil || cp.Kubelet == nil {
		return err
	}
	return cp.Kubelet.Start()
}

// PowerOff ends all of a member at once, as a power cut of its whole region would: control
// plane, nodes, all that runs there, agent and door. Its network to the hub is unchanged.
func (m *Member) PowerOff() error {
	m.hadAgents = slices.DeleteFunc(slices.Clone(m.Agents), func(a *Agent) bool { return !a.Running() })
	processes := append(m.ControlPlane.Processes(), m.agentProcesses()...)
	return cutPower(append(processes, m.doorProcesses()...), m.ControlPlane.ContainerLog(), m.Name)
}

// PowerOn starts again what PowerOff has ended, with its data, and returns when the
// API server is ready. No container that ran on the nodes is started again.
func (m *Member) PowerOn(ctx context.Context) error {
	errs := []error{m.ControlPlane.powerOn(ctx)}
	if errs[0] == nil {
		for _, a := range m.hadAgents {
			errs = append(errs, a.Start())
		}
		for _, p := range m.doorProcesses() {
			errs = append(errs, p.Start())
		}
	}
	return errors.Join(errs...)
}

// cutPower kills processes, and records in the log of containers, if there is one, that
// all of them have ended.
func cutPower(processes []*Process, logFile, member string) error {
	var there []*Process
	kubelets := false
	for _, p := range processes {
		if p != nil {
			there = append(there, p)
			kubelets = kubelets || strings.HasSuffix(p.Spec.Name, kubeletSuffix)
		}
	}
	if err := killAll(there); err != nil || !kubelets {
		return err
	}
	log, err := kubelet.OpenLog(logFile, member)
	if err != nil {
		return err
	}
	return errors.Join(log.Write(kubelet.Record{What: kubelet.PowerOff}), log.Close())
}

func (cp *ControlPlane) powerOn(ctx context.Context) error {
	// kube-apiserver waits for etcd.
	if err := errors.Join(cp.Etcd.Start(), cp.APIServer.Start()); err != nil {
		return fmt.Errorf("powering on %s: %w", cp.Name, err)
	}
	if err := cp.WaitAPI(ctx); err != nil {
		return fmt.Errorf("powering on %s: %w", cp.Name, err)
	}
	errs := []error{cp.ControllerManager.Start(), cp.Scheduler.Start(), cp.PowerOnNodes(ctx)}
	if cp.Karpenter != nil {
		errs = append(errs, cp.Karpenter.Start())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("powering on %s: %w", cp.Name, err)
	}
	return nil
}

// kubeletSuffix ends the name of the process of startKubelet.
const kubeletSuffix = "-kubelet"

// PowerOff does the same as that of Member.
func (d *Detached) PowerOff(member string) error {
	cp, agents, err := d.member(member)
	if err != nil {
		return err
	}
	return cutPower(append(cp.Processes(), agents...), cp.ContainerLog(), member)
}

// PowerOn does the same as that of Member.
func (d *Detached) PowerOn(ctx context.Context, member string) error {
	cp, agents, err := d.member(member)
	if err != nil {
		return err
	}
	if err := cp.powerOn(ctx); err != nil {
		return err
	}
	var errs []error
	for _, p := range agents {
		errs = append(errs, p.Start())
	}
	return errors.Join(errs...)
}

// member returns a member's control plane, as far as PowerOff and PowerOn need it, and its
// agent and door, if there are any.
func (d *Detached) member(name string) (*ControlPlane, []*Process, error) {
	if _, err := d.Link(name); err != nil {
		return nil, nil, err
	}
	named := func(component string) *Process { return d.Processes[name+"-"+component] }
	cp := attachControlPlane(name, d.Dir)
	cp.Etcd, cp.APIServer, cp.ControllerManager = named("etcd"), named("kube-apiserver"), named("kube-controller-manager")
	cp.Scheduler, cp.KWOK, cp.Kubelet = named("kube-scheduler"), named("kwok"), named("kubelet")
	if autoscaler := named("karpenter"); autoscaler != nil {
		cp.Karpenter = &Karpenter{Process: autoscaler}
	}
	if err := cp.connect(); err != nil {
		return nil, nil, err
	}
	agents := []*Process{named("agent"), named("door")}
	return cp, slices.DeleteFunc(agents, func(p *Process) bool { return p == nil }), nil
}
