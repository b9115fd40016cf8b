package link

import (
	"context"
	"errors"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Options of a Client. There is none that turns off mutual TLS.
type Options struct {
	// HubAddress is host:port of the hub's leader.
	HubAddress string
	// HubServerName must be a DNS name in the hub's certificate.
	HubServerName string
	// Credentials secure the connections; if nil they are the files CertFile,
	// KeyFile and HubCAFile: see Files.
	Credentials                  Credentials
	CertFile, KeyFile, HubCAFile string
	// AgentVersion, for people.
	AgentVersion string
	// Instance is the random identity of this process.
	Instance string
	// Restrictions of the member's administrator, which the hub shows to people; nil:
	// none are told.
	Restrictions *fleetv1.Restrictions
	// Leading reports whether this process is certain to lead the agent's replicas; nil:
	// it is. One that is not says so to the hub, and ends if the hub knows another.
	Leading func() bool
	// TimeFactor scales every interval of the link; 1 by default.
	TimeFactor float64
	// Tuning of the streams.
	Tuning Tuning
}

// Assignments is what the member holds, from a cache.
type Assignments interface {
	// List names all of them, each in which version it is.
	List(ctx context.Context) ([]Held, error)
	// Render gives one as it is now; nil if it is not there.
	Render(Ref) *fleetv1.AssignmentReport
}

// Orders takes the hub's orders. Put never blocks and must not change them.
type Orders interface {
	Put(*fleetv1.Order)
}

// Capacity tells the member's room. Whoever makes the reports calls
// Client.CapacityChanged after each.
type Capacity interface {
	// Report is the newest, nil before the first; it must not be changed.
	Report() *fleetv1.CapacityReport
	// NextSequence is the number of a report that counts all that the member
	// holds by now, and has it made.
	NextSequence() uint64
	// SetTemplates says which templates to judge, always whole.
	SetTemplates(*fleetv1.TemplateSet)
}

// Terms keeps the agent's and the hub's terms across processes.
type Terms interface {
	// Begin makes this process's term durable, one above all before, and
	// returns it with the highest term of a hub that has been seen.
	Begin(ctx context.Context) (agentTerm int64, highest HubTerm, err error)
	// Observe makes a hub's term and its proof durable; it writes only if the term
	// is the highest, or the proof of the highest is new.
	Observe(ctx context.Context, term HubTerm) error
}

// HubTerm is a hub's term with the proof that came with it, which only a hub can
// make and check; empty where none came.
type HubTerm struct {
	Term  int64
	Proof string
}

// Lease is told of the renewals that the hub has granted.
type Lease interface {
	// Sending is called before a renewal is sent. What it returns is called with
	// the length of the lease once the answer was accepted, and else not at all.
	Sending() (granted func(length time.Duration))
}

// Member is all that the link needs of the member.
type Member struct {
	Assignments Assignments
	Orders      Orders
	Capacity    Capacity
	Terms       Terms
	// Lease; nil: nobody wants to know.
	Lease Lease
	// Fingerprint is the UID of the cluster's kube-system namespace.
	Fingerprint func(context.Context) (string, error)
	// Synced waits until the caches behind all these are filled; false if the
	// context ended first.
	Synced func(context.Context) bool
}

func (o *Options) setDefaults() {
	if o.TimeFactor <= 0 {
		o.TimeFactor = 1
	}
	if o.Leading == nil {
		o.Leading = func() bool { return true }
	}
	o.Tuning.setDefaults(o.scaled)
	if o.Credentials == nil {
		o.Credentials = Files{CertFile: o.CertFile, KeyFile: o.KeyFile, HubCAFile: o.HubCAFile}
	}
}

func (o *Options) validate() error {
	files, given := o.Credentials.(Files)
	switch {
	case o.HubAddress == "":
		return errors.New("link: no address of the hub")
	case given && (files.CertFile == "" || files.KeyFile == "" || files.HubCAFile == ""):
		return errors.New("link: certificate, key and the hub's CA are required")
	case o.Instance == "":
		return errors.New("link: no instance")
	}
	return nil
}

// scaled is a time as the time factor has it.
func (o *Options) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) * o.TimeFactor)
}
