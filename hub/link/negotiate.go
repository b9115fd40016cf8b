package link

import (
	"fmt"
	"slices"
	"time"

	fleetv1 "github.com/vdi-fleet/vdi-fleet/proto/fleet/v1"
)

// Protocol versions that the hub speaks.
const (
	minProtocol = 1
	maxProtocol = protocolDigests
	// protocolDigests is the version from which on an inventory begins with its
	// digest, and orders are acknowledged.
	protocolDigests = 2
)

// capabilityCapacityChanges: the hub takes capacity reports of what has changed
// alone.
const capabilityCapacityChanges = "capacity-changes"

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
	// MaxProtocol is the highest version to speak, all that there are by
	// default. It is for tests of version skew.
	MaxProtocol int32
	// AckTimeout is how long the oldest batch of either side may go
	// unacknowledged, 60 s by default.
	AckTimeout time.Duration
	// Capabilities that this hub has beyond the protocol's base, and those that
	// an agent must have.
	Capabilities, RequiredCapabilities []string
}

func (t *Tuning) setDefaults() {
	if t.MaxProtocol <= 0 || t.MaxProtocol > maxProtocol {
		t.MaxProtocol = maxProtocol
	}
	setDefault(&t.AckTimeout, defaultAckTimeout)
	if !slices.Contains(t.Capabilities, capabilityCapacityChanges) {
		t.Capabilities = append(slices.Clip(t.Capabilities), capabilityCapacityChanges)
	}
}

// negotiate finds the version to speak, the highest that both know, or says
// what to upgrade.
func (t *Tuning) negotiate(h *fleetv1.Hello) (int32, error) {
	protocol := min(h.GetMaxProtocol(), t.MaxProtocol)
	switch {
	case h.GetMinProtocol() > h.GetMaxProtocol():
		return 0, fmt.Errorf("%w: the agent speaks versions %d to %d", errProtocol, h.GetMinProtocol(), h.GetMaxProtocol())
	case h.GetMinProtocol() > t.MaxProtocol:
		return 0, fmt.Errorf("%w: the agent (%s) speaks versions %d to %d, the hub %d to %d: upgrade the hub",
			ErrVersion, versionOf(h), h.GetMinProtocol(), h.GetMaxProtocol(), minProtocol, t.MaxProtocol)
	case protocol < minProtocol:
		return 0, fmt.Errorf("%w: the agent (%s) speaks versions %d to %d, the hub %d to %d: upgrade the agent",
			ErrVersion, versionOf(h), h.GetMinProtocol(), h.GetMaxProtocol(), minProtocol, t.MaxProtocol)
	}
	if missing := firstMissing(h.GetRequiredCapabilities(), t.Capabilities); missing != "" {
		return 0, fmt.Errorf("%w: the agent (%s) requires %.*q, which this hub does not know: upgrade the hub",
			ErrCapability, versionOf(h), maxQuoted, missing)
	}
	if missing := firstMissing(t.RequiredCapabilities, h.GetCapabilities()); missing != "" {
		return 0, fmt.Errorf("%w: this hub requires %.*q, which the agent (%s) does not know: upgrade the agent",
			ErrCapability, maxQuoted, missing, versionOf(h))
	}
	return protocol, nil
}

func firstMissing(required, known []string) string {
	for _, capability := range required {
		if !slices.Contains(known, capability) {
			return capability
		}
	}
	return ""
}

func versionOf(h *fleetv1.Hello) string {
	if h.GetAgentVersion() == "" {
		return "of unknown version"
	}
	return fmt.Sprintf("version %.*s", maxQuoted, h.GetAgentVersion())
}
