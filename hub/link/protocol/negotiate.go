package protocol

import (
	"fmt"
	"slices"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
	"github.com/vdi-fleet/vdi-fleet/proto/version"
)

// maxQuoted is how many characters of a name an error quotes, so that the remedy at its
// end is never truncated.
const maxQuoted = 32

// DefaultAckTimeout is how long the oldest batch of either side may go
// unacknowledged.
const DefaultAckTimeout = 60 * time.Second

// Tuning has the settings of a connection.
type Tuning struct {
	// AckTimeout is how long the oldest batch of either side may go
	// unacknowledged, DefaultAckTimeout by default.
	AckTimeout time.Duration
	// Capabilities of this hub beyond the base protocol, and those that an agent must
	// have.
	Capabilities, RequiredCapabilities []string
}

// SetDefaults fills in what is not set.
func (t *Tuning) SetDefaults() {
	if t.AckTimeout <= 0 {
		t.AckTimeout = DefaultAckTimeout
	}
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
		return 0, fmt.Errorf("%w: the agent supports versions %d to %d", ErrViolation, theirs.Min, theirs.Max)
	case !ok:
		upgrade := "agent"
		if theirs.Min > ours.Max {
			upgrade = "hub"
		}
		return 0, fmt.Errorf("%w: the agent (%s) supports versions %d to %d, the hub %d to %d: upgrade the %s",
			ErrVersion, versionOf(h), theirs.Min, theirs.Max, ours.Min, ours.Max, upgrade)
	}
	if missing := version.FirstMissing(h.GetRequiredCapabilities(), t.Capabilities); missing != "" {
		return 0, fmt.Errorf("%w: the agent (%s) requires %.*q, which this hub does not support: upgrade the hub",
			ErrCapability, versionOf(h), maxQuoted, missing)
	}
	if missing := version.FirstMissing(t.RequiredCapabilities, h.GetCapabilities()); missing != "" {
		return 0, fmt.Errorf("%w: this hub requires %.*q, which the agent (%s) does not support: upgrade the agent",
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
