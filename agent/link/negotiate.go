package link

import (
	"fmt"
	"slices"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Protocol versions that the agent speaks.
const (
	minProtocol = 1
	maxProtocol = protocolDigests
	// protocolDigests is the version from which on an inventory begins with its
	// digest, and orders are acknowledged.
	protocolDigests = 2
)

// capabilityCapacityChanges is of hubs that take capacity reports of what has
// changed alone.
const capabilityCapacityChanges = "capacity-changes"

const (
	// defaultAckTimeout where the hub does not say how long the oldest batch may
	// go unacknowledged, before the time factor.
	defaultAckTimeout = 60 * time.Second
	// leastTimeout is what a time factor leaves of these, since a machine that
	// is busy is not scaled with it.
	leastTimeout = 2 * time.Second
	// minAckTimeout: no hub can make an agent flap.
	minAckTimeout = 100 * time.Millisecond
	// defaultSendTimeout is how long the hub may take no message while there is
	// one, before the time factor.
	defaultSendTimeout = 20 * time.Second
)

// Tuning is what may be otherwise of a stream than by default.
type Tuning struct {
	// MaxProtocol is the highest version to speak, all that there are by
	// default. It is for tests of version skew.
	MaxProtocol int32
	// SendTimeout is how long the hub may take no message while there is one,
	// 20 s times the time factor by default, and 2 s at the least.
	SendTimeout time.Duration
	// Capabilities that this agent has beyond the protocol's base, and those
	// that a hub must have.
	Capabilities, RequiredCapabilities []string
}

func (t *Tuning) setDefaults(scaled func(time.Duration) time.Duration) {
	if t.MaxProtocol <= 0 || t.MaxProtocol > maxProtocol {
		t.MaxProtocol = maxProtocol
	}
	if t.SendTimeout <= 0 {
		t.SendTimeout = max(scaled(defaultSendTimeout), leastTimeout)
	}
}

// introduce says in Hello what the agent speaks, knows and requires.
func (t *Tuning) introduce(hello *fleetv1.Hello) *fleetv1.Hello {
	hello.MinProtocol, hello.MaxProtocol = minProtocol, t.MaxProtocol
	hello.Capabilities, hello.RequiredCapabilities = t.Capabilities, t.RequiredCapabilities
	return hello
}

// terms are what a hub must agree to.
type terms struct {
	min, max        int32
	known, required []string
}

func termsOf(hello *fleetv1.Hello) terms {
	if hello == nil {
		return terms{min: minProtocol, max: maxProtocol}
	}
	return terms{
		min: max(hello.GetMinProtocol(), minProtocol), max: min(hello.GetMaxProtocol(), maxProtocol),
		known: hello.GetCapabilities(), required: hello.GetRequiredCapabilities(),
	}
}

// accept says why a hub can't be spoken with, and what to upgrade.
func (t terms) accept(w *fleetv1.Welcome) error {
	if p := w.GetProtocol(); p < t.min || p > t.max {
		return fmt.Errorf("%w: the hub speaks version %d of the link, this agent %d to %d", errProtocol, p, t.min, t.max)
	}
	if missing := firstMissing(w.GetRequiredCapabilities(), t.known); missing != "" {
		return fmt.Errorf("%w: the hub requires %q, which this agent does not know: upgrade the agent", ErrCapability, missing)
	}
	if missing := firstMissing(t.required, w.GetCapabilities()); missing != "" {
		return fmt.Errorf("%w: this agent requires %q, which the hub does not know: upgrade the hub", ErrCapability, missing)
	}
	return nil
}

func firstMissing(required, known []string) string {
	for _, capability := range required {
		if !slices.Contains(known, capability) {
			return capability
		}
	}
	return ""
}
