package session

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/hub/session/lifecycle"
	"github.com/vdi-fleet/vdi-fleet/hub/session/memory"
	"github.com/vdi-fleet/vdi-fleet/proto/metrics"
)

// leading is the controller whose metrics are exposed.
var leading atomic.Pointer[Reconciler]

var (
	placements = metrics.NewCounterVec("vdi_hub_placements_total",
		"Placement decisions by result: placed (in a free slot), provisioning (on a node that is being added), growable (on a node that must be added first), resumed, failedOver, unschedulable, refused.", "result")
	startSeconds = metrics.NewHistogram("vdi_hub_session_start_seconds",
		"From a session's creation to its first being ready.", prometheus.ExponentialBuckets(0.1, 2, 12))
	moved = metrics.NewCounterVec("vdi_hub_sessions_moved_total",
		"Sessions moved out of their members because another member has capacity, by reason (PodUnschedulable, ScaleUpFailed, ProvisioningTimeout, NoCapacityToResume, Drain, Rebalance).", "reason")
	_ = metrics.NewGaugeFunc("vdi_hub_failover_pending_sessions",
		"Sessions that are to run and whose member is lost. They wait for their failover time, for capacity, for the member, or for an operator's declaration.", func() float64 {
			if r := leading.Load(); r != nil {
				return float64(r.memory.CountLost())
			}
			return 0
		})
	failovers = metrics.NewCounterVec("vdi_hub_failovers_total",
		"Sessions rescheduled because their member is lost, by failover mode and reason (MemberUnreachable, MemberFenced).", "mode", "reason")
	detection = metrics.NewHistogram("vdi_hub_failover_detection_seconds",
		"Of sessions rescheduled: from when their member sent its last heartbeat until it counted as lost.", prometheus.ExponentialBuckets(0.5, 2, 12))
	decision = metrics.NewHistogram("vdi_hub_failover_decision_seconds",
		"Of sessions rescheduled: from when their member counted as lost until the new placement was stored. It includes the wait of their failover mode.", prometheus.ExponentialBuckets(0.5, 2, 12))
	recovery = metrics.NewHistogram("vdi_hub_failover_recovery_seconds",
		"Of sessions rescheduled: from the new placement until they were ready again.", prometheus.ExponentialBuckets(0.1, 2, 12))
)

func init() {
	for _, reason := range []string{
		string(memory.NoNodeFits), string(memory.ScaleUpFailed), string(memory.ProvisioningTimeout),
		v1alpha1.ReasonNoCapacityToResume, lifecycle.MovedByDrain, lifecycle.MovedByRebalance,
	} {
		moved.WithLabelValues(reason) // from the start, so that the first one shows as an increase
	}
	for _, mode := range []v1alpha1.FailoverMode{v1alpha1.FailoverRestart, v1alpha1.FailoverFence, v1alpha1.FailoverHold} {
		for _, reason := range []string{v1alpha1.ReasonMemberUnreachable, v1alpha1.ReasonMemberFenced} {
			failovers.WithLabelValues(string(mode), reason)
		}
	}
}

// observe counts what a write has made durable.
func observe(before *v1alpha1.VDISession, in *lifecycle.Input, w *lifecycle.Write) {
	s, now := w.Session, in.Now
	if w.Result != "" && w.Result != lifecycle.ResultUnschedulable {
		placements.WithLabelValues(resultOf(w)).Inc()
	}
	if w.Moved != "" {
		moved.WithLabelValues(w.Moved).Inc()
	}
	if !w.Mirrored {
		return
	}
	if before.Status.StartTime == nil && s.Status.StartTime != nil {
		startSeconds.Observe(now.Sub(s.CreationTimestamp.Time).Seconds())
	}
	if f := s.Status.LastFailover; f != nil && f.RecoveredTime != nil && before.Status.LastFailover.RecoveredTime == nil {
		recovery.Observe(max(0, now.Sub(f.Time.Time).Seconds()))
	}
}

// resultOf returns the result of a placement for the metric: that of a new placement without a free slot
// is the kind of its slot.
func resultOf(w *lifecycle.Write) string {
	if w.Result == lifecycle.ResultPlaced && w.Decision.Kind != placement.Free {
		return w.Decision.Kind.String()
	}
	return w.Result
}

// observeFailover measures a failover: the loss of the session's member was detected at
// known, the decision was made at made, and is stored now.
func observeFailover(w *lifecycle.Write, known, made, now time.Time) {
	s := &w.Session.Status
	failovers.WithLabelValues(string(s.Placement.FailoverMode), s.LastFailover.Reason).Inc()
	if known.IsZero() {
		known = made
	}
	detection.Observe(max(0, known.Sub(w.LostSince).Seconds()))
	decision.Observe(max(0, now.Sub(known).Seconds()))
}
