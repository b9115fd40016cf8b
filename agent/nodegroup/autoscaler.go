package nodegroup

import (
	"fmt"
	"time"
)

// stale is the age from which the status of cluster-autoscaler counts as absent: it writes it each 10 s.
const stale = 3 * time.Minute

// mostRequested is the maximum number of requested nodes that are provisioning, whatever the ConfigMap
// contains. All of them count for the limits.
const mostRequested = 10_000

// AutoscalerStatus is what cluster-autoscaler reports in its ConfigMap.
type AutoscalerStatus struct {
	// Problem is why it can't be read, "" if it can.
	Problem string
	// Written is when.
	Written time.Time
	Groups  map[string]AutoscalerGroup
}

// AutoscalerGroup is a node group of cluster-autoscaler.
type AutoscalerGroup struct {
	// Target is how many nodes it has requested, Most how many it may request.
	Target, Most int32
	// BackedOff reports whether scale-up is in backoff after a failure.
	BackedOff bool
	// Message is the reason for the backoff.
	Message string
}

// SetAutoscaler replaces the status of cluster-autoscaler, nil if there is none.
func (t *Tracker) SetAutoscaler(s *AutoscalerStatus) { t.scaler = s }

// surveyAutoscaler adds the requested nodes and the limit of the group's cluster-autoscaler group.
func (t *Tracker) surveyAutoscaler(g *group, s *survey, now time.Time) {
	status := t.scaler
	if status == nil {
		s.problem = "the member has no ConfigMap kube-system/cluster-autoscaler-status"
		return
	}
	own, ok := status.Groups[g.ClusterAutoscalerGroup]
	switch {
	case status.Problem != "":
		s.problem = "the status of cluster-autoscaler can't be read: " + status.Problem
	case now.Sub(status.Written) > stale:
		s.problem = fmt.Sprintf("cluster-autoscaler has not written its status since %s: is it running?", status.Written.UTC().Format("15:04 UTC"))
	case !ok:
		s.problem = fmt.Sprintf("cluster-autoscaler has no node group %q", g.ClusterAutoscalerGroup)
	}
	if s.problem != "" {
		return
	}
	s.most, s.autoscaled, s.backedOff, s.backoff = &own.Most, true, own.BackedOff, own.Message
	requested := max(own.Target-s.have, 0)
	since := g.outage.await(requested, now)
	s.have += requested
	for name, amount := range s.size {
		s.used[name] += int64(requested) * amount
	}
	for range min(requested, mostRequested) {
		s.provision("", "", s.shape.Allocatable, since)
	}
}
