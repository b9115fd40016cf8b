package link

import (
	"fmt"
	"slices"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/version"
)

// maxQuoted is how many characters of a name a refusal quotes, so that what to
// upgrade, which comes last, is never cut off.
const maxQuoted = 32

const (
	// defaultAckTimeout is how long the oldest batch of either side may go
	// unacknowledged, defaultSendTimeout how long an agent may take no message.
	defaultAckTimeout  = 60 * time.Second
	defaultSendTimeout = 20 * time.Second
	// leastTimeout is what a time factor leaves of these, since a machine that
	// is busy is not scaled with it.
	leastTimeout = 2 * time.Second
)

// ScaledTimeouts are the defaults of Tuning.AckTimeout and Options.SendTimeout
// times a factor, and 2 s at the least.
func ScaledTimeouts(factor float64) (ack, send time.Duration) {
	scaled := func(d time.Duration) time.Duration {
		return max(time.Duration(float64(d)*factor), leastTimeout)
	}
	return scaled(defaultAckTimeout), scaled(defaultSendTimeout)
}

// Tuning is what may be otherwise of a connection than by default.
type Tuning struct {
	// AckTimeout is how long the oldest batch of either side may go
	// unacknowledged, 60 s by default.
	AckTimeout time.Duration
	// Capabilities that this hub has beyond the protocol's base, and those that
	// an agent must have.
	Capabilities, RequiredCapabilities []string
}

func (t *Tuning) setDefaults() {
	setDefault(&t.AckTimeout, defaultAckTimeout)
	if !slices.Contains(t.Capabilities, version.CapacityChanges) {
		t.Capabilities = append(slices.Clip(t.Capabilities), version.CapacityChanges)
	}
}

// negotiate returns the highest protocol version that both sides support, or an
// error that names which side to upgrade.
func (t *Tuning) negotiate(h *fleetv1.Hello) (int32, error) {
	ours, theirs := version.Supported(), version.Range{Min: h.GetMinProtocol(), Max: h.GetMaxProtocol()}
	protocol, ok := ours.Highest(theirs)
	switch {
	case theirs.Min > theirs.Max:
		return 0, fmt.Errorf("%w: the agent speaks versions %d to %d", errProtocol, theirs.Min, theirs.Max)
	case !ok:
		upgrade := "agent"
		if theirs.Min > ours.Max {
			upgrade = "hub"
		}
		return 0, fmt.Errorf("%w: the agent (%s) speaks versions %d to %d, the hub %d to %d: upgrade the %s",
			ErrVersion, versionOf(h), theirs.Min, theirs.Max, ours.Min, ours.Max, upgrade)
	}
	if missing := version.FirstMissing(h.GetRequiredCapabilities(), t.Capabilities); missing != "" {
		return 0, fmt.Errorf("%w: the agent (%s) requires %.*q, which this hub does not know: upgrade the hub",
			ErrCapability, versionOf(h), maxQuoted, missing)
	}
	if missing := version.FirstMissing(t.RequiredCapabilities, h.GetCapabilities()); missing != "" {
		return 0, fmt.Errorf("%w: this hub requires %.*q, which the agent (%s) does not know: upgrade the agent",
			ErrCapability, maxQuoted, missing, versionOf(h))
	}
	return protocol, nil
}

func versionOf(h *fleetv1.Hello) string {
	if h.GetAgentVersion() == "" {
		return "of unknown version"
	}
	return fmt.Sprintf("version %.*s", maxQuoted, h.GetAgentVersion())
}
