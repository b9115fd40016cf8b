package stage

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/vdi-fleet/vdi-fleet/test/faults/netem"
	"github.com/vdi-fleet/vdi-fleet/test/harness"
)

// hubAddress is the agents' flag for the address that they dial.
const hubAddress = "--hub-address="

// agentProxy puts a proxy between a member's agents and the address that they dial.
func (s *Stage) agentProxy(m *harness.Member) (*netem.Proxy, error) {
	at := slices.IndexFunc(m.Agent.Spec.Args, func(arg string) bool { return strings.HasPrefix(arg, hubAddress) })
	if at < 0 {
		return nil, fmt.Errorf("the agent of %s is started without %s", m.Name, hubAddress)
	}
	flag := m.Agent.Spec.Args[at]
	w, err := netem.NewProxy(func() string { return strings.TrimPrefix(flag, hubAddress) }, s.Seed)
	if err != nil {
		return nil, err
	}
	for _, a := range m.Agents {
		at := slices.Index(a.Spec.Args, flag)
		if at < 0 {
			w.Close()
			return nil, fmt.Errorf("the agents of %s dial different hubs", m.Name)
		}
		a.Spec.Args[at] = hubAddress + w.Addr()
		// A replica that ends on SIGTERM releases its lock, so that nothing waits for it.
		if err := a.Restart(); err != nil {
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

// kubeconfig is a flag of hub and agents.
const kubeconfig = "--kubeconfig="

// apiProxy puts a proxy between a process and its API server.
func (s *Stage) apiProxy(p *harness.Process) error {
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
		w, err := netem.NewProxy(func() string { return to }, s.Seed)
		if err != nil {
			return err
		}
		s.APILinks[p.Spec.Name] = w
		cluster.Server = "https://" + w.Addr()
	}
	path += "." + p.Spec.Name
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return err
	}
	p.Spec.Args[at] = kubeconfig + path
	return p.Restart()
}

// Proxies returns the proxies of all links.
func (s *Stage) Proxies() []*netem.Proxy {
	return append(slices.Collect(maps.Values(s.Links)), slices.Collect(maps.Values(s.APILinks))...)
}
