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
	// sendTimeout is how long the hub may take no message while there is one,
	// before the time factor.
	sendTimeout = 20 * time.Second
)

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
