package link

import (
	"fmt"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/version"
)

const (
	// leastTimeout is the lower bound of a scaled timeout, since a machine that
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
	// SendTimeout is how long the hub may take no message while there is one,
	// 20 s times the time factor by default, and 2 s at the least.
	SendTimeout time.Duration
	// Capabilities that this agent has beyond the protocol's base, and those
	// that a hub must have.
	Capabilities, RequiredCapabilities []string
}

// acceptable returns why the agent cannot work with a hub, given the Hello that it
// sent, and which side to upgrade.
func acceptable(hello *fleetv1.Hello, w *fleetv1.Welcome) error {
	supported := version.Supported()
	if p := w.GetProtocol(); !supported.Contains(p) {
		return fmt.Errorf("%w: the hub speaks version %d of the link, this agent %d to %d", errProtocol, p, supported.Min, supported.Max)
	}
	if missing := version.FirstMissing(w.GetRequiredCapabilities(), hello.GetCapabilities()); missing != "" {
		return fmt.Errorf("%w: the hub requires %q, which this agent does not know: upgrade the agent", ErrCapability, missing)
	}
	if missing := version.FirstMissing(hello.GetRequiredCapabilities(), w.GetCapabilities()); missing != "" {
		return fmt.Errorf("%w: this agent requires %q, which the hub does not know: upgrade the hub", ErrCapability, missing)
	}
	return nil
}
