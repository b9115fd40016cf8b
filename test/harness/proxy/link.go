package proxy

import (
	"fmt"
	"time"
)

// CutMode says what a cut network does to connections.
type CutMode string

const (
	// CutReset resets every connection, and new ones as soon as they are made: a
	// crashed router's neighbour, a firewall that rejects.
	CutReset CutMode = "reset"
	// CutBlackhole delivers nothing either way and tells nobody: a pulled cable.
	// New connections seem to be made and stay silent.
	CutBlackhole CutMode = "blackhole"
	// CutToHub delivers nothing to the hub; what it sends still arrives.
	CutToHub CutMode = "to-hub"
	// CutToAgent delivers nothing to the agent; what it sends still arrives.
	CutToAgent CutMode = "to-agent"
)

// Link is the network between one agent and the hub, as the one who breaks it
// sees it. What a blackhole held back is delivered when it is healed, as TCP
// would, unless an end has given the connection up.
type Link interface {
	// Cut begins a cut; the last one counts.
	Cut(mode CutMode) error
	// Slow delays each direction by latency and limits it to so many bytes per
	// second (0 is unlimited).
	Slow(latency time.Duration, bytesPerSecond int) error
	// Heal ends cuts and slowness.
	Heal() error
	// DropConnections resets those that there are; new ones are welcome.
	DropConnections() error
	// Status says how the link is and how many connections it carries.
	Status() (Status, error)
}

// Status is a link's state. Cut is "" when it is whole.
type Status struct {
	Cut            CutMode       `json:"cut,omitempty"`
	Latency        time.Duration `json:"latency,omitempty"`
	BytesPerSecond int           `json:"bytesPerSecond,omitempty"`
	Connections    int           `json:"connections"`
	// Backend is where the newest connection went.
	Backend string `json:"backend,omitempty"`
}

func (mode CutMode) check() error {
	switch mode {
	case CutReset, CutBlackhole, CutToHub, CutToAgent:
		return nil
	}
	return fmt.Errorf("no such cut: %q (there are %s, %s, %s, %s)", mode, CutReset, CutBlackhole, CutToHub, CutToAgent)
}
