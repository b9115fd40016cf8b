package member

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// maxWhy bounds texts of errors and agents in a condition, in bytes.
const maxWhy = 200

// maxRemedy bounds the hub's own messages, which include a remedy, in bytes.
const maxRemedy = 600

// connectionHistory is what the status shows of a member's connections. Health does not
// depend on it.
type connectionHistory struct {
	// uncertain is set if, by its last renewal, another agent replica may lead.
	uncertain bool
	// connectedAt is when this hub admitted the last connection, lostAt when the last one
	// ended; zero if there was none.
	connectedAt, lostAt time.Time
	// lostReason and lostWhy explain the last loss.
	lostReason, lostWhy string
	// otherCluster is the fingerprint of another cluster whose agent was refused since the
	// member's own was connected.
	otherCluster string
	// incompatible is why an agent with an incompatible protocol was refused since the
	// member's own sent its last heartbeat; refused is the time of the last refusal.
	incompatible string
	refused      time.Time
	// exceeded is the error, and exceededAt the end, of the last stream whose agent reported
	// too much; exceededAnnounced is the message of the last event about it.
	exceeded, exceededAnnounced string
	exceededAt                  time.Time
	// granted is when this hub last granted a renewal; zero if it has not since the member's
	// access was revoked.
	granted time.Time
	// lastGrant is the last grant, and lastHeartbeat the member's last heartbeat; they are
	// never reset.
	lastGrant, lastHeartbeat time.Time
	// revokedAt is when this hub first read that the member is revoked; zero if it is not,
	// or has sent a heartbeat since.
	revokedAt time.Time
	// expires is when the certificate of the member's agent expires; zero if the hub did not
	// issue it.
	expires time.Time
}

// everConnected reports whether an agent of the member has ever connected, according to its
// status. A fingerprint alone does not prove it: enrollment records one.
func everConnected(mc *v1alpha1.MemberCluster) bool {
	if c := meta.FindStatusCondition(mc.Status.Conditions, v1alpha1.ConditionConnected); c != nil {
		return c.Reason != v1alpha1.ReasonNeverConnected
	}
	return mc.Status.AgentVersion != ""
}

// assess returns the health of the member at a time.
func (m *member) assess(t health.Timings, now time.Time) health.Verdict {
	return m.heartbeats.Assess(t, health.Overrides{Revoked: m.revoked, Fenced: m.fence.inEffect(now), Uncertain: m.uncertain}, now)
}

// began records that a connection was admitted.
func (m *member) began(t health.Timings, now time.Time) {
	m.heartbeats.Connected(t, now)
	m.heartbeat(now)
	m.connectedAt, m.otherCluster, m.incompatible, m.uncertain = now, "", "", false
}

// grant records a granted renewal.
func (m *member) grant(now time.Time) {
	m.heartbeat(now)
	m.granted, m.lastGrant, m.incompatible = now, now, ""
}

// heartbeat records that the member's agent is alive.
func (m *member) heartbeat(now time.Time) {
	m.lastHeartbeat, m.revokedAt = now, time.Time{}
	m.fence.alive = m.fence.declared != nil
}

// ended records that the member's connection has ended.
func (m *member) ended(t health.Timings, now time.Time, err error) {
	m.peer, m.serving = nil, false
	m.lostAt = now
	m.lostReason, m.lostWhy = lossOf(err)
	if errors.Is(err, protocol.ErrStalled) {
		m.heartbeats.Stalled(t, now)
	}
	if errors.Is(err, protocol.ErrExcess) {
		m.exceeded, m.exceededAt = boundedTo(err.Error(), maxRemedy), now
	}
}

// update updates the member from its MemberCluster, and ends the connection of a revoked
// member.
func (m *member) update(mc *v1alpha1.MemberCluster, t health.Timings, now time.Time) {
	m.adopt(mc)
	m.fence.declare(mc.Spec.Fenced, !m.heartbeats.Silent(t, now), m.heartbeats.ConfirmedAt(t, now))
	if m.fingerprint == "" {
		m.fingerprint = mc.Status.Fingerprint // recorded at enrollment
	}
	m.fence.other = m.fence.declared != nil && m.fence.declared.Fingerprint != m.fingerprint
	if m.fence.refusesAgent() && m.peer != nil {
		m.peer.Close(link.ErrFenced)
		m.ended(t, now, link.ErrFenced)
	}
	m.expires = validUntil(mc.Status.Certificate)
	if m.revoked {
		m.revoke(t, now)
	}
}

// revoke ends the member's connection and resets its health: once allowed again, it starts
// without a history of heartbeats.
func (m *member) revoke(t health.Timings, now time.Time) {
	if m.peer != nil {
		m.peer.Close(link.ErrRevoked)
		m.ended(t, now, link.ErrRevoked)
	}
	m.instance, m.incompatible = "", ""
	m.granted = time.Time{}
	if m.revokedAt.IsZero() {
		m.revokedAt = now
	}
	m.heartbeats.Reset()
}

// lossOf returns the reason why a connection ended, and a message.
func lossOf(err error) (reason, why string) {
	switch {
	case err == nil:
		return v1alpha1.ReasonDisconnected, "the agent closed it"
	case errors.Is(err, protocol.ErrStalled):
		return v1alpha1.ReasonStalled, bounded(err.Error())
	case errors.Is(err, protocol.ErrExcess):
		return v1alpha1.ReasonExcess, boundedTo(err.Error(), maxRemedy)
	case errors.Is(err, link.ErrRevoked):
		return v1alpha1.ReasonRevoked, bounded(err.Error())
	case errors.Is(err, link.ErrCertificate):
		return v1alpha1.ReasonCertificateExpired, bounded(err.Error())
	}
	return v1alpha1.ReasonDisconnected, bounded(err.Error())
}

// bounded returns a text of possibly external origin in a form that is fit for a condition:
// no longer than maxWhy and without terminal control characters.
func bounded(text string) string { return boundedTo(text, maxWhy) }

func boundedTo(text string, limit int) string {
	text = convert.Printable(text)
	if len(text) <= limit {
		return text
	}
	return convert.Truncated(text, limit-len("…")) + "…"
}

// recordIncompatible records why an agent with an incompatible protocol was refused, and
// returns whether that is new.
//
// If the member's own agent sent a heartbeat recently, the other one does not matter. If
// several alternate, the first is shown until it no longer tries to connect.
func (m *member) recordIncompatible(t health.Timings, reason error, now time.Time) bool {
	why := boundedTo(reason.Error(), maxRemedy)
	switch {
	case m.revoked, m.heartbeats.Silence(now) < t.Suspect:
		return false
	case m.incompatible == why:
		m.refused = now
		return false
	case m.incompatible != "" && now.Sub(m.refused) < t.Unreachable:
		return false
	}
	m.incompatible, m.refused = why, now
	return true
}

// cacheLag is how long a cache may lag behind what was registered. After that an older
// state is accepted: the API server may have been restored from a backup.
const cacheLag = 10 * time.Second

// outdated reports whether a later version of the member was adopted less than cacheLag
// ago.
func (m *member) outdated(version string, now time.Time) bool {
	if now.Sub(m.adopted) >= cacheLag {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, m.version)
	return err == nil && order < 0
}
