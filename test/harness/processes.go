package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/vdi-fleet/vdi-fleet/test/harness/hubservice"
	"github.com/vdi-fleet/vdi-fleet/test/harness/probe"
	"github.com/vdi-fleet/vdi-fleet/test/harness/provisioner"
	"github.com/vdi-fleet/vdi-fleet/test/harness/proxy"
	"github.com/vdi-fleet/vdi-fleet/test/harness/workdir"
)

// planProcesses creates hub replicas and agents, with their ports, not yet started.
// Their arguments are complete once their members are registered.
func (f *Fleet) planProcesses() error {
	hub, err := binary("hub")
	if err != nil {
		return err
	}
	agent, err := binary("agent")
	if err != nil {
		return err
	}
	for i := range f.options.HubReplicas {
		ports, err := workdir.ReservePorts(f.Dir, 3)
		if err != nil {
			return err
		}
		f.Hub.Replicas = append(f.Hub.Replicas, &Replica{
			Process:  f.process(fmt.Sprintf("hub-%d", i), hub),
			PodName:  fmt.Sprintf("%s-%d", hubservice.Name, i),
			LinkAddr: localhost(ports[0]), MetricsAddr: localhost(ports[1]), ProbeAddr: localhost(ports[2]),
		})
	}
	for _, member := range f.Members {
		if err := errors.Join(f.planAgents(member, agent), planDoor(f, member, agent)); err != nil {
			return err
		}
	}
	return planConsole(f, hub)
}

func (f *Fleet) process(name, path string) *Process {
	return NewProcess(ProcessSpec{
		Name: name, Path: path, Env: f.options.Args.Env, Dir: f.Dir, Detach: f.detachedBy != "",
	})
}

// startProxies starts the network between the members and the hub. The hub need not run yet.
func (f *Fleet) startProxies(ctx context.Context) error {
	for _, member := range f.Members {
		if f.detachedBy != "" {
			if err := f.startSidecars(ctx, member); err != nil {
				return err
			}
			continue
		}
		link, err := proxy.StartTo(member.proxyAddr, f.Hub.backend)
		if err != nil {
			return err
		}
		member.Proxy = link
	}
	return nil
}

// startSidecars starts the processes of a detached fleet for what are goroutines of this
// process otherwise.
func (f *Fleet) startSidecars(ctx context.Context, member *Member) error {
	kubeconfig, err := member.ControlPlane.KubeconfigFor(provisioner.User)
	if err != nil {
		return err
	}
	link := f.process(member.Name+"-proxy", f.detachedBy)
	link.Spec.Args = []string{"proxy", "--listen=" + member.proxyAddr, "--control=" + member.proxyControl}
	if f.Hub.Service != nil {
		link.Spec.Args = append(link.Spec.Args, "--hub-kubeconfig="+f.Hub.kubeconfig)
		link.Spec.Args = append(link.Spec.Args, hubservice.Flags(f.Hub.pods())...)
	}
	volumes := f.process(member.Name+"-provisioner", f.detachedBy)
	volumes.Spec.Args = []string{"provision", "--kubeconfig=" + kubeconfig}

	member.sidecars = []*Process{link, volumes}
	for _, process := range member.sidecars {
		if err := process.Start(); err != nil {
			return err
		}
	}
	remote := proxy.Remote{Control: member.proxyControl}
	member.Proxy = remote
	return link.WaitUntil(ctx, func(context.Context) error {
		_, err := remote.Status()
		return err
	})
}

func (f *Fleet) startHub(ctx context.Context) error {
	f.options.Progress(fmt.Sprintf("starting %d replicas of the hub", len(f.Hub.Replicas)))
	kubeconfig, err := f.Hub.ControlPlane.KubeconfigFor(HubUser, serviceAccountGroups...)
	if err != nil {
		return err
	}
	var tls LinkFiles
	if !f.options.Enroll {
		if tls, err = f.PKI.Hub(); err != nil {
			return err
		}
	}
	group, starting := errgroup.WithContext(ctx)
	for _, replica := range f.Hub.Replicas {
		replica.Spec.Args = f.options.hubArgs(replica, kubeconfig, tls)
		replica.Spec.Env = append([]string{"POD_NAME=" + replica.PodName, "POD_NAMESPACE=" + SystemNamespace}, f.options.Args.Env...)
		group.Go(func() error {
			if err := replica.Start(); err != nil {
				return err
			}
			return replica.WaitReady(starting)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// An agent that is refused retries only after seconds.
	return f.Hub.waitServed(ctx)
}

// WaitReady waits until the replica's /readyz succeeds.
func (r *Replica) WaitReady(ctx context.Context) error {
	return r.WaitUntil(ctx, func(ctx context.Context) error { return probe.Ready(ctx, r.ProbeAddr) })
}

// Metrics returns the metrics of a replica, as text.
func (h *Hub) Metrics(ctx context.Context, r *Replica) (string, error) {
	return h.ControlPlane.scraper.Scrape(ctx, r.MetricsAddr)
}

func localhost(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
