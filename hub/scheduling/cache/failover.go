package cache

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/failover"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// Failover places a session whose member is lost, and reserves capacity under the epoch, in
// one step. If the decision is not Placed, the failover is not due; or it is due, and the
// verdict's Wait is the delay of the rate limit; or there is no Wait, and the decision
// explains the missing capacity.
func (c *Cache) Failover(req placement.Request, session failover.Session, from types.UID, epoch int64) (placement.Decision, failover.Verdict) {
	start := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replace(req.UID)
	v := c.members.FailoverOf(from).Decide(session)
	if !v.Due {
		return pending(v), v
	}
	fleet := c.snapshot(nil)
	if fleet.Awaits != nil {
		v.Wait = fleet.AwaitsFor
		return *fleet.Awaits, v
	}
	now := fleet.Now
	if v.Wait = c.rateLimit.FleetWait(req.UID, v.MassFailure, now); v.Wait > 0 {
		return rateLimited(v)
	}
	req.Failover, req.Refused, req.RefusedFree = true, maps.Clone(req.Refused), maps.Clone(req.RefusedFree)
	if req.Refused == nil {
		req.Refused = map[types.UID]string{}
	}
	req.Exclude(from, "it is lost")
	restore := c.placed.counted(&req)
	d := placement.Place(req, fleet.Candidates, c.ledger)
	restore()
	if !d.Placed {
		c.rateLimit.Remove(req.UID)
		return d, v
	}
	if v.Wait = c.rateLimit.TargetWait(req.UID, d.Cluster.UID, v.MassFailure, now); v.Wait > 0 {
		return rateLimited(v)
	}
	c.rateLimit.Consume(req.UID, d.Cluster.UID)
	c.ledger.ReserveFor(req.UID, epoch, d.Cluster.UID, req.Template, req.Resources)
	c.placed.decide(req.UID, owner{req.User, req.Namespace}, decision{epoch: epoch, member: d.Cluster.UID, policy: req.PolicyName, template: req.Template})
	placementSeconds.Observe(c.clock.Since(start).Seconds())
	return d, v
}

func pending(v failover.Verdict) placement.Decision {
	return placement.Decision{Reason: v1alpha1.ReasonFailoverPending, Message: v.Message}
}

func rateLimited(v failover.Verdict) (placement.Decision, failover.Verdict) {
	v.Message += ": waiting for the failover rate limit"
	if v.MassFailure {
		v.Message += ", and only one or two a second while most members are lost"
	}
	return pending(v), v
}
