package checker

import (
	"time"
)

// RecordPowerLoss records that all nodes of a member lost their power, which ends its Pods.
func (c *Checker) RecordPowerLoss(now time.Time, cluster string) {
	c.RecordOutage(now, cluster)
	for uid, pod := range c.pods {
		if pod.Cluster == cluster {
			c.ignored[uid] = true
		}
	}
}

// checkSuperseded checks that a session was allowed not to wait for its stop in a member: G1,
// before anything runs twice. A session that fails back to its first copy supersedes the
// replacement in turn.
func (c *Checker) checkSuperseded(now time.Time, f SessionState, cluster string, epoch int64) {
	before := c.sessions[f.UID].Superseded
	failsBack := f.Cluster != "" && before[f.Cluster] > 0
	mode, declared := c.held[cluster][f.UID].Mode, c.fenced[cluster] || c.removed[cluster]
	if before[cluster] >= epoch || failsBack {
		return
	}
	key := string(f.UID) + "/superseded/" + cluster
	away := time.Duration(0)
	if since := c.away[cluster]; !since.IsZero() {
		away = now.Sub(since)
	}
	switch {
	case mode == "Restart" && (declared || away >= c.minimum.Restart):
		c.twice[f.UID] = true
	case declared:
	case mode == "Hold":
		c.Report(now, 1, f.UID, key, "session %s of mode Hold was rescheduled in %q, and %s has not confirmed its stop", f.Name, f.Cluster, cluster)
	case mode == "Fence" && away < c.minimum.Fence:
		c.Report(now, 1, f.UID, key, "session %s of mode Fence was rescheduled in %q after %s was away for %s, sooner than %s", f.Name, f.Cluster, cluster, away, c.minimum.Fence)
	case mode == "Restart":
		c.Report(now, 1, f.UID, key, "session %s of mode Restart was rescheduled in %q after %s was away for %s, sooner than %s", f.Name, f.Cluster, cluster, away, c.minimum.Restart)
	}
}
