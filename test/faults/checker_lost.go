package faults

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// patience is what the hub must have with a member that is away before its
// sessions are rescheduled without waiting for their stop (docs/design.md, section 7). Zero
// is not judged.
type patience struct{ restart, fence time.Duration }

// took notes that a scenario takes a member from the hub.
func (c *checker) took(now time.Time, cluster string) {
	if c.away[cluster].IsZero() {
		c.away[cluster] = now
	}
}

// powerCut notes that all of a member's nodes have lost their power: what becomes of
// the objects that they leave is no news.
func (c *checker) powerCut(now time.Time, cluster string) {
	c.took(now, cluster)
	for uid, pod := range c.pods {
		if pod.Cluster == cluster {
			c.excused[uid] = true
		}
	}
}

// forget what a cluster held, which is to be told again.
func (c *checker) forget(cluster string) {
	delete(c.held, cluster)
	maps.DeleteFunc(c.pods, func(_ types.UID, pod seenPod) bool { return pod.Cluster == cluster })
}

// together: every member is back, and both sides agree.
func (c *checker) together() {
	clear(c.away)
	clear(c.word)
}

// superseded checks that a session had a right not to wait for its stop in a
// member: promise 1, before anything runs twice. One that goes back to a copy that
// it left behind leaves the replacement behind in its turn.
func (c *checker) superseded(now time.Time, f sessionFact, cluster string, epoch int64) {
	before := c.sessions[f.UID].Superseded
	goesBack := f.Cluster != "" && before[f.Cluster] > 0
	mode, word := c.held[cluster][f.UID].Mode, c.word[cluster] || c.gone[cluster]
	if before[cluster] >= epoch || goesBack {
		return
	}
	key := string(f.UID) + "/superseded/" + cluster
	away := time.Duration(0)
	if since := c.away[cluster]; !since.IsZero() {
		away = now.Sub(since)
	}
	switch {
	case mode == "Restart" && (word || away >= c.patience.restart):
		c.twice[f.UID] = true
	case word:
	case mode == "Hold":
		c.breach(now, 1, f.UID, key, "session %s of mode Hold was rescheduled in %q, and %s has not confirmed its stop", f.Name, f.Cluster, cluster)
	case mode == "Fence" && away < c.patience.fence:
		c.breach(now, 1, f.UID, key, "session %s of mode Fence was rescheduled in %q after %s was away for %s, sooner than %s", f.Name, f.Cluster, cluster, away, c.patience.fence)
	case mode == "Restart":
		c.breach(now, 1, f.UID, key, "session %s of mode Restart was rescheduled in %q after %s was away for %s, sooner than %s", f.Name, f.Cluster, cluster, away, c.patience.restart)
	}
}
