package link

import (
	"context"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Options of a Client. None turns off mutual TLS.
type Options struct {
	// HubAddress is host:port of the hub's leader.
	HubAddress string
	// HubServerName must be a DNS name in the hub's certificate.
	HubServerName string
	// Credentials secure the connections.
	Credentials Credentials
	// AgentVersion, for display.
	AgentVersion string
	// Instance is the random identity of this process.
	Instance string
	// Restrictions of the member's administrator, if any, which the hub displays.
	Restrictions *fleetv1.Restrictions
	// Leading reports whether this process is certain to lead the agent's replicas. One
	// that is not exits if the hub is connected to another.
	Leading func() bool
	// TimeFactor scales every interval of the link.
	TimeFactor float64
	// Capabilities of this agent beyond the base protocol, and those that it requires of a
	// hub.
	Capabilities, RequiredCapabilities []string
}

// Assignments reads the member's assignments from a cache.
type Assignments interface {
	// List returns all of them, with their versions.
	List(ctx context.Context) ([]InventoryItem, error)
	// Render returns the current report of one, and nil if there is none.
	Render(Ref) *fleetv1.AssignmentReport
}

// Orders receives the hub's orders. Put never blocks, and must not change them.
type Orders interface {
	Put(*fleetv1.Order)
}

// Capacity builds the member's capacity reports, and calls Client.CapacityChanged after each.
type Capacity interface {
	// Report returns the newest, and nil before the first. It must not be changed.
	Report() *fleetv1.CapacityReport
	// NextSequence returns the number of the next report, which counts all assignments of
	// the member.
	NextSequence() uint64
	// SetTemplates replaces the reported templates.
	SetTemplates(*fleetv1.TemplateSet)
}

// Door is what leads browsers to the member's desktops.
type Door interface {
	// SetDoor replaces what the hub sends for it. It never blocks.
	SetDoor(*fleetv1.DoorConfig)
}

// Terms stores the agent's and the hub's terms.
type Terms interface {
	// Begin stores this process's term, one above all earlier ones, and returns it with the
	// highest term of a hub.
	Begin(ctx context.Context) (agentTerm int64, highest HubTerm, err error)
	// Observe stores a hub's term and its proof, if the term is the highest, or the proof of
	// the highest is new.
	Observe(ctx context.Context, term HubTerm) error
}

// HubTerm is a hub's term with its proof, if any, which only a hub can create and verify.
type HubTerm struct {
	Term  int64
	Proof string
}

// Lease records the renewals that the hub grants.
type Lease interface {
	// Sending is called before a renewal is sent. If the renewal is granted, the returned
	// function is called with the length of the lease.
	Sending() (granted func(length time.Duration))
}

// Member has the link's dependencies in the member.
type Member struct {
	Assignments Assignments
	Orders      Orders
	Capacity    Capacity
	// Door is nil if the member has none.
	Door  Door
	Terms Terms
	Lease Lease
	// Fingerprint is the UID of the cluster's kube-system namespace.
	Fingerprint func(context.Context) (string, error)
	// Synced waits until the caches have synced. It returns false if the context ends
	// first.
	Synced func(context.Context) bool
}

// scaled returns a duration times the time factor.
func (o *Options) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * o.TimeFactor)
}
