package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vdi-fleet/vdi-fleet/test/harness/proxy"
	"github.com/vdi-fleet/vdi-fleet/test/harness/workdir"
)

// stateFile marks a directory as a fleet's, which Down may remove.
const stateFile = "fleet.json"

// ErrNoFleet means that a directory holds no fleet.
var ErrNoFleet = errors.New("no fleet there")

type fleetState struct {
	Members []memberState `json:"members"`
}

type memberState struct {
	Name         string `json:"name"`
	ProxyControl string `json:"proxyControl"`
}

// StartDetached starts a fleet that outlives this process, for `make up`. It is
// ended by Detached.Down. executable is the fleet command, which runs the
// proxies and provisioners.
func StartDetached(ctx context.Context, options Options, executable string) (*Fleet, error) {
	if old, err := Attach(options.Dir); err == nil {
		if running := old.Running(); len(running) > 0 {
			return nil, fmt.Errorf("a fleet is up in %s (%d processes): `make down` ends it", old.Dir, len(running))
		}
		if err := old.Down(); err != nil {
			return nil, err
		}
	}
	return startFleet(ctx, options, executable)
}

// writeState stores what Attach reads.
func writeState(dir string, members []*Member) error {
	var state fleetState
	for _, member := range members {
		state.Members = append(state.Members, memberState{Name: member.Name, ProxyControl: member.proxyControl})
	}
	raw, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("writing state: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, stateFile), raw, 0o644); err != nil {
		return fmt.Errorf("writing state: %w", err)
	}
	return nil
}

// Detached is a fleet that another process has started.
type Detached struct {
	Dir       string
	Processes map[string]*Process
	Members   []string

	state fleetState
}

// Attach returns the fleet of a directory.
func Attach(dir string) (*Detached, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("attaching to fleet: %w", err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, ErrNoFleet)
	} else if err != nil {
		return nil, fmt.Errorf("attaching to fleet: %w", err)
	}
	d := &Detached{Dir: dir}
	if err := json.Unmarshal(raw, &d.state); err != nil {
		return nil, fmt.Errorf("attaching to fleet: %w", err)
	}
	if d.Processes, err = attachAll(dir); err != nil {
		return nil, err
	}
	for _, member := range d.state.Members {
		d.Members = append(d.Members, member.Name)
	}
	return d, nil
}

// Running returns the names of the running processes.
func (d *Detached) Running() []string {
	var running []string
	for name, process := range d.Processes {
		if process.Running() {
			running = append(running, name)
		}
	}
	slices.Sort(running)
	return running
}

// Agent returns the process of a member's agent.
func (d *Detached) Agent(member string) (*Process, error) {
	return d.Process(member + "-agent")
}

// Process returns the process of that name, running or not.
func (d *Detached) Process(name string) (*Process, error) {
	process, ok := d.Processes[name]
	if !ok {
		names := make([]string, 0, len(d.Processes))
		for name := range d.Processes {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, fmt.Errorf("no process %q; there are %s", name, strings.Join(names, ", "))
	}
	return process, nil
}

// Link returns the network between the hub and a member.
func (d *Detached) Link(member string) (proxy.Link, error) {
	for _, state := range d.state.Members {
		if state.Name == member {
			return proxy.Remote{Control: state.ProxyControl}, nil
		}
	}
	return nil, fmt.Errorf("no member %q; there are %s", member, strings.Join(d.Members, ", "))
}

// Down ends every process that is certainly of this fleet and removes its directory.
func (d *Detached) Down() error {
	processes := make([]*Process, 0, len(d.Processes))
	for _, process := range d.Processes {
		processes = append(processes, process)
	}
	if err := killAll(processes); err != nil {
		return err
	}
	return errors.Join(workdir.ReleasePorts(d.Dir), os.RemoveAll(d.Dir))
}
