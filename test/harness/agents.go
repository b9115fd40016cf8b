package harness

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/test/harness/probe"
	"github.com/vdi-fleet/vdi-fleet/test/harness/proxy"
	"github.com/vdi-fleet/vdi-fleet/test/harness/workdir"
)

// agentLock is the name of the lock that the replicas of an agent share.
const agentLock = "vdi-agent"

// planAgents creates the replicas of a member's agent, not yet started. Guards reach them
// at one address, as they reach the Service in production.
func (f *Fleet) planAgents(member *Member, path string) error {
	for i := range 1 + f.options.Standbys[member.Name] {
		ports, err := workdir.ReservePorts(f.Dir, 3)
		if err != nil {
			return err
		}
		name := member.Name + "-agent"
		if i > 0 {
			name = fmt.Sprintf("%s-%d", name, i)
		}
		member.Agents = append(member.Agents, &Agent{
			Process: f.process(name, path), PodName: fmt.Sprintf("vdi-agent-%d", i),
			MetricsAddr: localhost(ports[0]), ProbeAddr: localhost(ports[1]), LeaseAddr: localhost(ports[2]),
		})
	}
	member.Agent = member.Agents[0]
	member.leaseAddr = member.Agent.LeaseAddr
	if len(member.Agents) == 1 || !f.options.Kubelets {
		return nil
	}
	ports, err := workdir.ReservePorts(f.Dir, 1)
	if err != nil {
		return err
	}
	member.leaseAddr = localhost(ports[0])
	return nil
}

func (f *Fleet) startAgents(ctx context.Context) error {
	f.options.Progress(fmt.Sprintf("starting the agents of %d members", len(f.Members)))
	for _, member := range f.Members {
		if err := f.startAgentsOf(ctx, member); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fleet) startAgentsOf(ctx context.Context, member *Member) (err error) {
	if member.leaseAddr != member.Agent.LeaseAddr {
		var listening []string
		for _, a := range member.Agents {
			listening = append(listening, a.LeaseAddr)
		}
		if member.leaseService, err = proxy.Start(member.leaseAddr, listening); err != nil {
			return err
		}
	}
	var tls LinkFiles
	if f.options.Enroll {
		err = bootstrap(ctx, f.Hub.ControlPlane, member)
	} else {
		tls, err = f.PKI.Agent(member.Name, member.UID)
	}
	if err != nil {
		return err
	}
	kubeconfig, err := member.ControlPlane.KubeconfigFor(AgentUser, serviceAccountGroups...)
	if err != nil {
		return err
	}
	for _, a := range member.Agents {
		a.Spec.Args = f.options.agentArgs(member, a, kubeconfig, tls)
		a.Spec.Env = append([]string{"POD_NAME=" + a.PodName}, f.options.Args.Env...)
		if err := a.Start(); err != nil {
			return err
		}
	}
	return nil
}

// WaitReady waits until the agent's /readyz succeeds.
func (a *Agent) WaitReady(ctx context.Context) error {
	return a.WaitUntil(ctx, func(ctx context.Context) error { return probe.Ready(ctx, a.ProbeAddr) })
}

func (m *Member) agentProcesses() []*Process {
	var all []*Process
	for _, a := range m.Agents {
		all = append(all, a.Process)
	}
	return all
}

// memberLead is the last known leader among the replicas.
type memberLead struct {
	mu    sync.Mutex
	agent *Agent
}

// Leading returns the replica of the member's agent that holds the lock or, while the API
// server does not answer, held it last; the first one where that is unknown.
func (m *Member) Leading(ctx context.Context) *Agent {
	if len(m.Agents) < 2 {
		return m.Agent
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	holder := ""
	lease, err := m.ControlPlane.Client.CoordinationV1().Leases(SystemNamespace).Get(ctx, agentLock, getOptions)
	if err == nil {
		holder = ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	m.lead.mu.Lock()
	defer m.lead.mu.Unlock()
	for _, a := range m.Agents {
		if strings.HasPrefix(holder, a.PodName+"_") {
			m.lead.agent = a
		}
	}
	if m.lead.agent == nil {
		return m.Agent
	}
	return m.lead.agent
}

// Metrics returns the metrics of the replica of the agent that leads, as text.
func (m *Member) Metrics(ctx context.Context) (string, error) {
	return m.MetricsOf(ctx, m.Leading(ctx))
}

// MetricsOf returns the metrics of one replica of the agent, as text.
func (m *Member) MetricsOf(ctx context.Context, a *Agent) (string, error) {
	return m.ControlPlane.scraper.Scrape(ctx, a.MetricsAddr)
}
