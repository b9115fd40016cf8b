package harness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Difference is a flag that the harness sets to another value than the charts do by default.
// test/charts compares both, and fails for a difference that is not listed here.
type Difference struct {
	// Program is hub or agent.
	Program string
	Flag    string
	// Because completes "it differs because".
	Because string
	// In are the folders of test/ whose fleets alone set it, by Options.Args; if empty, the
	// harness sets it in every fleet.
	In []string
}

const here = "the processes run beside each other on one machine, each at a port of its own"

// Differences lists every Difference.
var Differences = []Difference{
	{Program: "hub", Flag: "kubeconfig", Because: "no ServiceAccount is mounted into a process"},
	{Program: "hub", Flag: "link-bind-address", Because: here},
	{Program: "hub", Flag: "metrics-bind-address", Because: here},
	{Program: "hub", Flag: "health-probe-bind-address", Because: here},
	{Program: "hub", Flag: "time-factor", Because: "a test can't wait five minutes for a failover; all timings are scaled alike"},
	{Program: "hub", Flag: "tls-cert-file", Because: "most fleets have certificates of the harness, as with the chart's certificates.mode secret, so that tests can forge some; those with Options.Enroll do not"},
	{Program: "hub", Flag: "tls-key-file", Because: "see tls-cert-file"},
	{Program: "hub", Flag: "client-ca-file", Because: "see tls-cert-file"},
	{Program: "hub", Flag: "trust-domain", Because: "a certificate of a fleet under test is good nowhere else"},
	{Program: "hub", Flag: "user-roles", Because: "it is off by default since it writes Roles, and with it these are tested too; test/scale measures with and without"},
	{Program: "hub", Flag: "leader-elect", Because: "these fleets have one replica of the hub, and what they measure is placement", In: []string{"placement"}},

	{Program: "agent", Flag: "kubeconfig", Because: "no ServiceAccount is mounted into a process"},
	{Program: "agent", Flag: "hub-address", Because: here},
	{Program: "agent", Flag: "hub-server-name", Because: here},
	{Program: "agent", Flag: "metrics-bind-address", Because: here},
	{Program: "agent", Flag: "health-probe-bind-address", Because: here},
	{Program: "agent", Flag: "lease-address", Because: here},
	{Program: "agent", Flag: "lease-url", Because: here + "; and where no kubelets are played there are no guards"},
	{Program: "agent", Flag: "guard-image", Because: "no image is pulled, and where no kubelets are played there are no guards"},
	{Program: "agent", Flag: "time-factor", Because: "see the hub's"},
	{Program: "agent", Flag: "tls-cert-file", Because: "see the hub's"},
	{Program: "agent", Flag: "tls-key-file", Because: "see the hub's"},
	{Program: "agent", Flag: "hub-ca-file", Because: "see the hub's"},
	{Program: "agent", Flag: "leader-elect", Because: "a clone of an agent is none of its replicas, and takes no lock", In: []string{"faults"}},
	{Program: "agent", Flag: "node-group-backoff", Because: "a test can't wait five minutes until an exhausted node group is tried again", In: []string{"elastic"}},
	{Program: "agent", Flag: "node-group-provisioning-timeout", Because: "a test can't wait five minutes for a node that never registers", In: []string{"elastic"}},
	{Program: "agent", Flag: "fail-after", Because: "what can't start fails permanently after seconds", In: []string{"integration"}},
	{Program: "agent", Flag: "buffer-image", Because: "members keep buffers there, and no image is pulled", In: []string{"elastic"}},
	{Program: "agent", Flag: "allow-open-network", Because: "one member is restricted by its administrator", In: []string{"integration"}},
	{Program: "agent", Flag: "allowed-host-suffixes", Because: "one member is restricted by its administrator", In: []string{"integration"}},
}

// Flags returns the arguments that a fleet with these options passes to its hub and its
// agents. Addresses and files are examples.
func Flags(options Options) (hub, agent []string, err error) {
	options, err = options.withDefaults(false)
	if err != nil {
		return nil, nil, err
	}
	var tls LinkFiles
	if !options.Enroll {
		tls = LinkFiles{CertFile: "tls.crt", KeyFile: "tls.key", CAFile: "ca.crt"}
	}
	const kubeconfig = "kubeconfig"
	replica := &Replica{LinkAddr: localhost(1), MetricsAddr: localhost(2), ProbeAddr: localhost(3)}
	a := &Agent{MetricsAddr: localhost(4), ProbeAddr: localhost(5), LeaseAddr: localhost(6)}
	m := &Member{Name: options.MemberSpecs[0].Name, Agent: a, proxyAddr: localhost(7), leaseAddr: localhost(8)}
	return options.hubArgs(replica, kubeconfig, tls),
		options.agentArgs(m, a, kubeconfig, tls), nil
}

// hubArgs returns the arguments of a replica of the hub. Without TLS files the hub issues
// certificates itself.
func (o Options) hubArgs(r *Replica, kubeconfig string, tls LinkFiles) []string {
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--namespace=" + SystemNamespace,
		"--leader-elect",
		"--leader-election-id=vdi-hub",
		"--link-bind-address=" + r.LinkAddr,
		"--trust-domain=" + TrustDomain,
		"--metrics-bind-address=" + r.MetricsAddr,
		"--health-probe-bind-address=" + r.ProbeAddr,
		"--time-factor=" + o.timeFactor(),
		"--session-namespaces=" + strings.Join(o.sessionNamespaces(), ","),
		"--user-roles",
	}
	if url := o.Console.url(); url != "" {
		args = append(args, "--console-url="+url)
	}
	if tls != (LinkFiles{}) {
		args = append(args, "--tls-cert-file="+tls.CertFile, "--tls-key-file="+tls.KeyFile, "--client-ca-file="+tls.CAFile)
	}
	return append(args, o.Args.Hub...)
}

// agentArgs returns the arguments of a replica of a member's agent. Without TLS files the
// agent joins.
func (o Options) agentArgs(m *Member, a *Agent, kubeconfig string, tls LinkFiles) []string {
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--member=" + m.Name,
		"--namespace=" + SystemNamespace,
		"--metrics-bind-address=" + a.MetricsAddr,
		"--health-probe-bind-address=" + a.ProbeAddr,
		"--time-factor=" + o.timeFactor(),
		"--hub-address=" + m.proxyAddr,
		"--hub-server-name=localhost",
	}
	if tls != (LinkFiles{}) {
		args = append(args, "--tls-cert-file="+tls.CertFile, "--tls-key-file="+tls.KeyFile, "--hub-ca-file="+tls.CAFile)
	}
	if o.Kubelets { // they run the guards beside Fence desktops
		args = append(args, "--guard-image=vdi-agent:harness", "--lease-url=http://"+m.leaseAddr, "--lease-address="+a.LeaseAddr)
	}
	if m.Door != nil {
		args = append(args, "--door-url=http://"+m.Door.BrowsersAddr)
	}
	return slices.Concat(args, o.Args.Agents, o.Args.Members[m.Name])
}

func (o Options) timeFactor() string {
	return strconv.FormatFloat(o.TimeFactor, 'g', -1, 64)
}

// validateFlags rejects flags of a suite that Differences does not list.
func (o Options) validateFlags() error {
	agents := slices.Clone(o.Args.Agents)
	for _, args := range o.Args.Members {
		agents = append(agents, args...)
	}
	for program, args := range map[string][]string{"hub": o.Args.Hub, "agent": agents} {
		for _, arg := range args {
			flag, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			if !slices.ContainsFunc(Differences, func(d Difference) bool { return d.Program == program && d.Flag == flag }) {
				return fmt.Errorf("the %s ships without --%s: explain in Differences of test/harness/flags.go why this fleet has it", program, flag)
			}
		}
	}
	return nil
}
