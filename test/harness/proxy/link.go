package proxy

import (
	"fmt"
	"time"
)

// CutMode is the effect of a cut on connections.
type CutMode string

const (
	// CutReset resets every connection, and new ones once they are accepted, as a
	// firewall that rejects does.
	CutReset CutMode = "reset"
	// CutBlackhole delivers nothing in either direction, like a pulled cable. New connections
	// are accepted and receive nothing.
	CutBlackhole CutMode = "blackhole"
	// CutToHub delivers nothing to the hub; what it sends still arrives.
	CutToHub CutMode = "to-hub"
	// CutToAgent delivers nothing to the agent; what it sends still arrives.
	CutToAgent CutMode = "to-agent"
)

// Link is the network between one agent and the hub. What a blackhole held back is
// delivered when the link is restored, as with TCP, unless one end has closed the
// connection.
type Link interface {
	// Cut begins a cut, which replaces the one before.
	Cut(mode CutMode) error
	// Slow delays each direction by latency and limits it to so many bytes per
	// second (0 is unlimited).
	Slow(latency time.Duration, bytesPerSecond int) error
	// Heal ends the cut and the slowdown.
	Heal() error
	// DropConnections resets the present connections; new ones are accepted.
	DropConnections() error
	// Status returns the state of the link and the number of its connections.
	Status() (Status, error)
}

// Status is a link's state. Cut is empty if the link is not cut.
type Status struct {
	Cut            CutMode       `json:"cut,omitempty"`
	Latency        time.Duration `json:"latency,omitempty"`
	BytesPerSecond int           `json:"bytesPerSecond,omitempty"`
	Connections    int           `json:"connections"`
	// Backend is the address that the newest connection was forwarded to.
	Backend string `json:"backend,omitempty"`
}

func (mode CutMode) check() error {
	switch mode {
	case CutReset, CutBlackhole, CutToHub, CutToAgent:
		return nil
	}
	return fmt.Errorf("no such cut: %q (there are %s, %s, %s, %s)", mode, CutReset, CutBlackhole, CutToHub, CutToAgent)
}
