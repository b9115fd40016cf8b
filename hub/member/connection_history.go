package member

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
	"github.com/vdi-fleet/vdi-fleet/proto/convert"
)

// maxWhy bounds what a condition quotes of an error or of an agent, in bytes.
const maxWhy = 200

// maxRemedy is the same of the hub's own messages, with a remedy.
const maxRemedy = 600

// connectionHistory is what the status shows of a member's connections. No health
// depends on it.
type connectionHistory struct {
	// connectedAt is when the last connection was let in, lostAt when the last
	// one ended, by this hub; zero: none.
	connectedAt, lostAt time.Time
	// lostReason and lostWhy say why that was.
	lostReason, lostWhy string
	// otherCluster is the fingerprint of another cluster whose agent was turned
	// away since the member's own was connected.
	otherCluster string
	// incompatible is why an agent was turned away that the hub does not
	// understand, or that does not understand the hub, since the member's own was
	// heard of; and refused when that was last.
	incompatible string
	refused      time.Time
	// exceeded is why the last stream ended whose agent reported more than a member
	// may have, and exceededAt when; exceededAnnounced is what an event said of it last.
	exceeded, exceededAnnounced string
	exceededAt                  time.Time
	// granted is when this hub last granted a renewal; zero: it did not since the
	// member's access was taken away.
	granted time.Time
	// lastGrant is the same, and lastHeartbeat when the member sent its last heartbeat;
	// nothing erases them.
	lastGrant, lastHeartbeat time.Time
	// uncertain: by its last renewal, another replica of the agent may lead by now.
	uncertain bool
	// revokedAt is since when this hub has known that it is revoked; zero: it is
	// not, or has sent a heartbeat since.
	revokedAt time.Time
	// expires is when the certificate of the member's agent does; zero: it has
	// none of the hub's.
	expires time.Time
}

// everConnected reports whether an agent of the member has ever said hello, as far
// as its status tells. A fingerprint alone does not: enrolment records it.
func everConnected(mc *v1alpha1.MemberCluster) bool {
	if c := meta.FindStatusCondition(mc.Status.Conditions, v1alpha1.ConditionConnected); c != nil {
		return c.Reason != v1alpha1.ReasonNeverConnected
	}
	return mc.Status.AgentVersion != ""
}

// assess returns the health of the member at a time.
func (m *member) assess(t health.Timings, now time.Time) health.Verdict {
	return m.heartbeats.Assess(t, health.Overrides{Revoked: m.revoked, Fenced: m.fence.holds(now), Uncertain: m.uncertain}, now)
}

// began notes that a connection was let in.
func (m *member) began(t health.Timings, now time.Time) {
	m.heartbeats.Connected(t, now)
	m.heartbeat(now)
	m.connectedAt, m.otherCluster, m.incompatible, m.uncertain = now, "", "", false
}

// grant notes a renewal that is granted.
func (m *member) grant(now time.Time) {
	m.heartbeat(now)
	m.granted, m.lastGrant, m.incompatible = now, now, ""
}

// heartbeat notes that the member's agent is alive.
func (m *member) heartbeat(now time.Time) {
	m.lastHeartbeat, m.revokedAt = now, time.Time{}
	m.fence.alive = m.fence.declared != nil
}

// ended notes that the member's connection is over.
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

// take makes the member what its MemberCluster says; one that is revoked has no
// connection any more when it returns.
func (m *member) take(mc *v1alpha1.MemberCluster, t health.Timings, now time.Time) {
	m.adopt(mc)
	m.fence.declare(mc.Spec.Fenced, !m.heartbeats.Silent(t, now), m.heartbeats.ConfirmedAt(t, now))
	if m.fingerprint == "" {
		m.fingerprint = mc.Status.Fingerprint // enrolment has bound it
	}
	m.fence.other = m.fence.declared != nil && m.fence.declared.Fingerprint != m.fingerprint
	if m.fence.bars() && m.peer != nil {
		m.peer.Close(link.ErrFenced)
		m.ended(t, now, link.ErrFenced)
	}
	m.expires = validUntil(mc.Status.Certificate)
	if m.revoked {
		m.revoke(t, now)
	}
}

// revoke ends what the member has, as far as the fleet knows it: it starts afresh once it is let in
// again, with nothing that counts against it or in its favor.
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

// lossOf returns the reason for which a connection ended, and the same for people.
func lossOf(err error) (reason, why string) {
	switch {
	case err == nil:
		return v1alpha1.ReasonDisconnected, "the agent ended it in good order"
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

// agrees reports whether nothing is known that hub and agent do not agree on.
func (m *member) agrees() bool {
	return m.agreement == "" || m.agreement == protocol.Agrees
}

// bounded is a text that may have come from outside, fit for a condition: no
// longer than maxWhy and with nothing that a terminal would obey.
func bounded(text string) string { return boundedTo(text, maxWhy) }

func boundedTo(text string, limit int) string {
	text = convert.Printable(text)
	if len(text) <= limit {
		return text
	}
	return convert.Truncated(text, limit-len("…")) + "…"
}

// refuseFingerprint says why an agent of another cluster is not let in.
func (m *member) refuseFingerprint(fingerprint string) error {
	return fmt.Errorf("%w: %s was %s, the agent speaks for %s; create a new MemberCluster for it", link.ErrFingerprint, m.name, m.fingerprint, bounded(fingerprint))
}

// noteIncompatible notes why an agent was turned away that does not speak as the
// hub does, and says whether that is news.
//
// Where the member's own agent sent a heartbeat a moment ago it is some other, and no
// matter. Of several that take turns the first is told of, until it asks no more.
func (m *member) noteIncompatible(t health.Timings, reason error, now time.Time) bool {
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

// cacheLag is how long a cache may take to show what was registered already.
// Beyond it an older state is believed: the API server may have been restored
// from a backup.
const cacheLag = 10 * time.Second

// outdated reports whether a later state of the member than one of that version was
// adopted a moment ago.
func (m *member) outdated(version string, now time.Time) bool {
	if now.Sub(m.adopted) >= cacheLag {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(version, m.version)
	return err == nil && order < 0
}
