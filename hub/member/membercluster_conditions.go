package member

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

// conditionsOf returns the conditions of a member's status. Until a new leader has received
// a heartbeat, the last conditions on what only the agent can report stay.
func conditionsOf(v view, status *v1alpha1.MemberClusterStatus) []metav1.Condition {
	was := func(kind string) *metav1.Condition { return meta.FindStatusCondition(status.Conditions, kind) }
	conditions := []metav1.Condition{
		readyCondition(v, was(v1alpha1.ConditionReady)),
		enrolledCondition(v, status.Certificate),
		connectedCondition(v, was(v1alpha1.ConditionConnected)),
		syncedCondition(v, was(v1alpha1.ConditionSynced)),
	}
	if v.capacity != nil && v.capacity.PodSecurity {
		conditions = append(conditions, podSecurityCondition(v.capacity.NotEnforced))
	}
	return conditions
}

// podSecurityCondition names admitted namespaces that do not enforce Pod Security.
func podSecurityCondition(notEnforced []string) metav1.Condition {
	const most = 5
	if len(notEnforced) == 0 {
		return condition(v1alpha1.ConditionPodSecurity)(metav1.ConditionTrue, v1alpha1.ReasonEnforced,
			"all admitted namespaces enforce Pod Security level restricted")
	}
	names := strings.Join(notEnforced[:min(most, len(notEnforced))], ", ")
	if more := len(notEnforced) - most; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return condition(v1alpha1.ConditionPodSecurity)(metav1.ConditionFalse, v1alpha1.ReasonNotEnforced,
		fmt.Sprintf("Pod Security level restricted is not enforced in %s: have the member's administrator run `kubectl vdi admit` for each namespace", names))
}

// condition returns a function that makes conditions of one type.
func condition(kind string) func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
	}
}

// join returns the instruction to join a member's agent.
func join(member string) string {
	return fmt.Sprintf("run `kubectl vdi join %s` and, in the member, the command that it prints", member)
}

// readyCondition summarizes the member's health.
func readyCondition(v view, was *metav1.Condition) metav1.Condition {
	ready := condition(v1alpha1.ConditionReady)
	switch {
	case v.Cause == health.Revoked:
		return ready(metav1.ConditionFalse, v1alpha1.ReasonRevoked,
			"an operator revoked its access: to admit it again set spec.access to Allowed, "+join(v.name))
	case v.Cause == health.Fenced:
		return ready(metav1.ConditionFalse, v1alpha1.ReasonUnreachable, declaredBy(v.fence.declared)+": its sessions are rescheduled")
	case v.State == health.Ready:
		return ready(metav1.ConditionTrue, v1alpha1.ReasonConnected, "the agent is connected and renews its lease")
	case v.otherCluster != "":
		return ready(metav1.ConditionFalse, v1alpha1.ReasonFingerprintChanged, otherClusterMessage(v))
	case v.incompatible != "":
		return ready(metav1.ConditionFalse, v1alpha1.ReasonIncompatible, incompatibleMessage(v))
	case v.State == health.NeverConnected:
		return ready(metav1.ConditionFalse, v1alpha1.ReasonNeverConnected, "no agent has connected yet: "+join(v.name))
	case v.State == health.Unreachable:
		return ready(metav1.ConditionFalse, v1alpha1.ReasonUnreachable,
			"no heartbeat from the agent for a long time: its desktops continue, and its sessions show their last known state; check the agent and the network between it and the hub")
	case v.State == health.Unknown && was != nil:
		return *was
	case v.State == health.Unknown:
		return ready(metav1.ConditionUnknown, v1alpha1.ReasonSuspect, "the hub has just started, or was paused, and has received no heartbeat of the agent yet")
	case v.Cause == health.Quarantined:
		return ready(metav1.ConditionFalse, v1alpha1.ReasonQuarantined,
			"the agent was lost too often: no new sessions are placed there for a while; check the network between it and the hub")
	case v.Cause == health.Recovering:
		return ready(metav1.ConditionFalse, v1alpha1.ReasonRecovering,
			"the agent sends heartbeats again: new sessions are placed there once it has been stable for a while")
	case v.Cause == health.Uncertain:
		return ready(metav1.ConditionUnknown, v1alpha1.ReasonSuspect,
			"the agent can't write to the member's API server: no new sessions are placed there, and its desktops continue; "+
				"check the member's control plane and the agent's log")
	case v.Cause == health.Stalled:
		return ready(metav1.ConditionUnknown, v1alpha1.ReasonSuspect,
			"the agent did not keep up and was disconnected: no new sessions are placed there; check the agent, its CPU limit, and the network's bandwidth")
	}
	return ready(metav1.ConditionUnknown, v1alpha1.ReasonSuspect,
		"no heartbeat from the agent: no new sessions are placed there; check the agent and the network between it and the hub")
}

func otherClusterMessage(v view) string {
	return fmt.Sprintf("an agent of cluster %q was refused, since this member is cluster %q: "+
		"a cluster that was rebuilt is a new member, so create a new MemberCluster for it and have it join", v.otherCluster, v.fingerprint)
}

func incompatibleMessage(v view) string {
	return "an agent was refused: " + v.incompatible
}

// enrolledCondition reports whether the member's agent has a certificate.
func enrolledCondition(v view, c *v1alpha1.MemberCertificate) metav1.Condition {
	enrolled := condition(v1alpha1.ConditionEnrolled)
	switch {
	case v.revoked:
		return enrolled(metav1.ConditionFalse, v1alpha1.ReasonRevoked,
			"an operator revoked its access, and no certificate of it is valid: to admit it again set spec.access to Allowed, "+join(v.name))
	case c == nil && v.ever:
		return enrolled(metav1.ConditionTrue, v1alpha1.ReasonExternallyIssued, "the agent's certificate was not issued by the hub")
	case c == nil || len(c.Serials()) == 0:
		return enrolled(metav1.ConditionFalse, v1alpha1.ReasonAwaitingAgent, "no agent has joined: "+join(v.name))
	case expired(c, v.now):
		return enrolled(metav1.ConditionFalse, v1alpha1.ReasonCertificateExpired,
			"the agent's certificate expired while it was disconnected: "+join(v.name))
	}
	return enrolled(metav1.ConditionTrue, v1alpha1.ReasonEnrolled, "the agent has a certificate of the hub, which it renews by itself")
}

// validUntil returns when the last of the certificates expires that the member may use;
// zero if there is none, or none with a time.
func validUntil(c *v1alpha1.MemberCertificate) time.Time {
	var last time.Time
	if c == nil {
		return last
	}
	for _, one := range []struct {
		serial   string
		notAfter *metav1.Time
	}{{c.Serial, c.NotAfter}, {c.NextSerial, c.NextNotAfter}} {
		if one.serial != "" && one.notAfter != nil && one.notAfter.After(last) {
			last = one.notAfter.Time
		}
	}
	return last
}

func expired(c *v1alpha1.MemberCertificate, now time.Time) bool {
	until := validUntil(c)
	return !until.IsZero() && !until.After(now)
}

// connectedCondition reports whether the stream is open. A recently broken stream is not
// shown while the member is Ready: a flapping link would cause constant writes.
func connectedCondition(v view, was *metav1.Condition) metav1.Condition {
	connected := condition(v1alpha1.ConditionConnected)
	switch {
	case v.connected:
		return connected(metav1.ConditionTrue, v1alpha1.ReasonConnected, "the agent's stream is open")
	case !v.ever:
		return connected(metav1.ConditionFalse, v1alpha1.ReasonNeverConnected, "no agent has connected yet: "+join(v.name))
	case v.otherCluster != "":
		return connected(metav1.ConditionFalse, v1alpha1.ReasonFingerprintChanged, otherClusterMessage(v))
	case v.incompatible != "":
		return connected(metav1.ConditionFalse, v1alpha1.ReasonIncompatible, incompatibleMessage(v))
	case was != nil && (v.State == health.Unknown || v.settling > 0):
		return *was
	case !v.lostAt.IsZero():
		return connected(metav1.ConditionFalse, v.lostReason, fmt.Sprintf("the stream ended at %s: %s", v.lostAt.UTC().Format(time.RFC3339), v.lostWhy))
	case was != nil && was.Status == metav1.ConditionFalse && was.Reason != v1alpha1.ReasonNeverConnected:
		return *was // an earlier leader recorded why it ended
	}
	return connected(metav1.ConditionFalse, v1alpha1.ReasonDisconnected, "the agent has not connected since this hub leads")
}

// syncedCondition reports whether hub and agent agree.
func syncedCondition(v view, was *metav1.Condition) metav1.Condition {
	synced := condition(v1alpha1.ConditionSynced)
	switch {
	case v.excess > 0:
		return synced(metav1.ConditionFalse, v1alpha1.ReasonExcess, fmt.Sprintf("the stream was ended at %s: %s", v.exceededAt.UTC().Format(time.RFC3339), v.exceeded))
	case v.synced && v.withheld > 0:
		return synced(metav1.ConditionFalse, v1alpha1.ReasonWithdrawalsStopped, withdrawalsMessage(v.withheld))
	case v.synced && v.orphans != "":
		return synced(metav1.ConditionTrue, v1alpha1.ReasonSynced, "hub and agent agree on what runs in the member; "+v.orphans)
	case v.synced:
		return synced(metav1.ConditionTrue, v1alpha1.ReasonSynced, "hub and agent agree on what runs in the member")
	case was != nil && was.Status == metav1.ConditionTrue && (v.State == health.Unknown || v.settling > 0):
		return *was
	case v.connected:
		return synced(metav1.ConditionFalse, v1alpha1.ReasonResyncing, "the agent is sending its full inventory: what sessions show of the member may be out of date")
	}
	return synced(metav1.ConditionUnknown, v1alpha1.ReasonNotConnected, "the agent is not connected: sessions there show their last known state")
}
