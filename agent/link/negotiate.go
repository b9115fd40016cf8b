package link

import (
	"fmt"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/version"
)

const (
	// minSendTimeout is the minimum of the scaled sendTimeout, for busy machines.
	minSendTimeout = 2 * time.Second
	// minAckTimeout prevents that a hub makes an agent flap.
	minAckTimeout = 100 * time.Millisecond
	// sendTimeout is how long a send may block, before the time factor.
	sendTimeout = 20 * time.Second
)

// checkCompatible returns why the agent can't work with a hub, and which side to upgrade.
func checkCompatible(hello *fleetv1.Hello, w *fleetv1.Welcome) error {
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
