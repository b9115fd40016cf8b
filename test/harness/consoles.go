package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/yaml"

	"github.com/vdi-fleet/vdi-fleet/test/harness/probe"
	"github.com/vdi-fleet/vdi-fleet/test/harness/router"
	"github.com/vdi-fleet/vdi-fleet/test/harness/workdir"
)

const (
	// ConsoleUser is the user of the console in audit logs.
	ConsoleUser = "system:serviceaccount:" + SystemNamespace + ":vdi-console"
	// consoleHost is the host of the console: browsers resolve it to this machine (RFC 6761).
	consoleHost = "vdi.localhost"
)

// Console is the console of a fleet: its replicas, and what leads browsers to them.
type Console struct {
	// URL of the pages.
	URL      string
	Replicas []*ConsoleReplica
	// Router leads browsers to the replicas. It is nil in a detached fleet, where it is a process.
	Router *router.Router

	port    int
	sidecar *Process
}

// ConsoleReplica is one process of the console.
type ConsoleReplica struct {
	*Process
	PagesAddr   string
	MetricsAddr string
	ProbeAddr   string
}

// url returns the address of the console, "" if there is none.
func (o ConsoleOptions) url() string {
	if o.Replicas == 0 {
		return ""
	}
	return fmt.Sprintf("http://%s:%d", consoleHost, o.Port)
}

// chart returns the values of the hub's chart.
func (o ConsoleOptions) chart() map[string]any {
	return map[string]any{"enabled": o.Replicas > 0, "url": o.url(), "users": map[string]any{"secretName": "vdi-console-users"}}
}

// planConsole creates the replicas of the console, with their ports, not yet started.
func planConsole(f *Fleet, hub string) error {
	options := &f.options.Console
	f.Console = &Console{}
	if options.Replicas == 0 {
		return nil
	}
	if options.Port == 0 {
		ports, err := workdir.ReservePorts(f.Dir, 1)
		if err != nil {
			return err
		}
		options.Port = ports[0]
	}
	f.Console.URL, f.Console.port = options.url(), options.Port
	if f.detachedBy != "" {
		f.Console.sidecar = f.process("router", f.detachedBy)
	}
	for i := range options.Replicas {
		ports, err := workdir.ReservePorts(f.Dir, 3)
		if err != nil {
			return err
		}
		f.Console.Replicas = append(f.Console.Replicas, &ConsoleReplica{
			Process:   f.process(fmt.Sprintf("console-%d", i), hub),
			PagesAddr: localhost(ports[0]), MetricsAddr: localhost(ports[1]), ProbeAddr: localhost(ports[2]),
		})
	}
	return nil
}

// startConsole starts the replicas, and then what leads browsers to them.
func startConsole(ctx context.Context, f *Fleet) error {
	if len(f.Console.Replicas) == 0 {
		return nil
	}
	f.options.Progress(fmt.Sprintf("starting %d replicas of the console", len(f.Console.Replicas)))
	kubeconfig, err := f.Hub.ControlPlane.KubeconfigFor(ConsoleUser, serviceAccountGroups...)
	if err != nil {
		return err
	}
	users := filepath.Join(f.Dir, "console-users.yaml")
	if err := writeConsoleUsers(users); err != nil {
		return err
	}
	group, starting := errgroup.WithContext(ctx)
	for _, replica := range f.Console.Replicas {
		replica.Spec.Args = f.options.consoleArgs(replica, kubeconfig, users)
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
	return f.Console.startRouter(ctx, f.Members)
}

// WaitReady waits until the replica's /readyz succeeds.
func (r *ConsoleReplica) WaitReady(ctx context.Context) error {
	return r.WaitUntil(ctx, func(ctx context.Context) error { return probe.Ready(ctx, r.ProbeAddr) })
}

// startRouter starts what stands in for DNS, ingress controllers and load balancers.
func (c *Console) startRouter(ctx context.Context, members []*Member) error {
	pages := router.Route{Host: consoleHost}
	for _, replica := range c.Replicas {
		pages.Addresses = append(pages.Addresses, replica.PagesAddr)
	}
	routes := []router.Route{pages}
	for _, m := range members {
		if m.Door != nil {
			routes = append(routes, router.Route{Host: "*." + m.Spec.IngressDomain, Addresses: []string{m.Door.BrowsersAddr}})
		}
	}
	address := localhost(c.port)
	if c.sidecar == nil {
		var err error
		c.Router, err = router.Start(address, routes...)
		return err
	}
	c.sidecar.Spec.Args = []string{"router", "--listen=" + address}
	for _, route := range routes {
		c.sidecar.Spec.Args = append(c.sidecar.Spec.Args, "--route="+route.String())
	}
	if err := c.sidecar.Start(); err != nil {
		return err
	}
	return c.sidecar.WaitUntil(ctx, func(ctx context.Context) error { return probe.Listening(ctx, address) })
}

// stop ends what startConsole has started in this process.
func (c *Console) stop() error {
	if c == nil || c.Router == nil {
		return nil
	}
	return c.Router.Stop()
}

func (c *Console) processes() []*Process {
	if c == nil {
		return nil
	}
	var all []*Process
	if c.sidecar != nil {
		all = append(all, c.sidecar)
	}
	for _, replica := range c.Replicas {
		all = append(all, replica.Process)
	}
	return all
}

// doorService is the name of a door's Service.
const doorService = "vdi-door"

// Door is the process of a member's door.
type Door struct {
	*Process
	// BrowsersAddr is where the router leads browsers to.
	BrowsersAddr string
	MetricsAddr  string
	ProbeAddr    string
}

// planDoor creates the process of a member's door, with its ports, not yet started.
func planDoor(f *Fleet, member *Member, path string) error {
	if !member.Spec.Door {
		return nil
	}
	ports, err := workdir.ReservePorts(f.Dir, 3)
	if err != nil {
		return err
	}
	member.Door = &Door{
		Process:      f.process(member.Name+"-door", path),
		BrowsersAddr: localhost(ports[0]), MetricsAddr: localhost(ports[1]), ProbeAddr: localhost(ports[2]),
	}
	return nil
}

// startDoors starts the doors. Their agents, which are started later, have their keys.
func startDoors(ctx context.Context, members []*Member) error {
	group, starting := errgroup.WithContext(ctx)
	for _, member := range members {
		door := member.Door
		if door == nil {
			continue
		}
		group.Go(func() error {
			kubeconfig, err := member.ControlPlane.KubeconfigFor(DoorUser, serviceAccountGroups...)
			if err != nil {
				return err
			}
			door.Spec.Args = doorArgs(door, kubeconfig)
			if err := door.Start(); err != nil {
				return err
			}
			return door.WaitReady(starting)
		})
	}
	return group.Wait()
}

// WaitReady waits until the door's /readyz succeeds.
func (d *Door) WaitReady(ctx context.Context) error {
	return d.WaitUntil(ctx, func(ctx context.Context) error { return probe.Ready(ctx, d.ProbeAddr) })
}

// doorArgs returns the arguments of a door.
func doorArgs(d *Door, kubeconfig string) []string {
	return []string{
		"door", "--kubeconfig=" + kubeconfig, "--namespace=" + SystemNamespace,
		"--bind-address=" + d.BrowsersAddr, "--metrics-bind-address=" + d.MetricsAddr, "--health-probe-bind-address=" + d.ProbeAddr,
	}
}

// doorProcesses returns the process of the member's door, if it has one.
func (m *Member) doorProcesses() []*Process {
	if m.Door == nil {
		return nil
	}
	return []*Process{m.Door.Process}
}

// writeConsoleUsers writes the console's users: those of every fleet, whose passwords are the names that they log in with.
func writeConsoleUsers(file string) error {
	type user struct {
		Login        string   `json:"login"`
		Name         string   `json:"name"`
		PasswordHash string   `json:"passwordHash"`
		Groups       []string `json:"groups,omitempty"`
	}
	var users []user
	for _, u := range Users {
		login, _, _ := strings.Cut(u.Name, "@")
		// Cheap, since the password is no secret.
		hash, err := bcrypt.GenerateFromPassword([]byte(login), bcrypt.MinCost)
		if err != nil {
			return err
		}
		users = append(users, user{login, u.Name, string(hash), u.Groups})
	}
	content, err := yaml.Marshal(map[string]any{"users": users})
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return fmt.Errorf("writing the console's users: %w", err)
	}
	return nil
}

// consoleArgs returns the arguments of a replica of the console.
func (o Options) consoleArgs(r *ConsoleReplica, kubeconfig, users string) []string {
	return append([]string{
		"console",
		"--kubeconfig=" + kubeconfig,
		"--namespace=" + SystemNamespace,
		"--session-namespaces=" + strings.Join(o.sessionNamespaces(), ","),
		"--url=" + o.Console.url(),
		"--bind-address=" + r.PagesAddr,
		"--metrics-bind-address=" + r.MetricsAddr,
		"--health-probe-bind-address=" + r.ProbeAddr,
		"--users-file=" + users,
	}, o.Args.Console...)
}
