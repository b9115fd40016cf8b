package cache

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
)

// Place places a session and reserves capacity for it under the epoch, in one step. If no member seems to
// have capacity, the session keeps what the last decision has reserved for this epoch.
func (c *Cache) Place(req placement.Request, epoch int64) placement.Decision {
	start := c.clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	last, held := c.placed.decided[req.UID]
	held = held && last.reservedFor(&req, epoch)
	c.replace(req.UID)
	fleet := c.snapshot(nil)
	if fleet.Awaits != nil {
		return *fleet.Awaits
	}
	restore := c.placed.counted(&req)
	d := placement.Place(req, fleet.Candidates, c.ledger)
	if !d.Placed && held {
		if kept, ok := placement.Keep(req, fleet.Candidates, c.ledger, last.member); ok {
			d = kept
		}
	}
	restore()
	if d.Placed {
		c.ledger.ReserveFor(req.UID, epoch, d.Cluster.UID, req.Template, req.Resources)
		c.placed.decide(req.UID, owner{req.User, req.Namespace}, decision{
			epoch: epoch, member: d.Cluster.UID, policy: req.PolicyName, template: req.Template, resources: req.Resources,
		})
	}
	placementSeconds.Observe(c.clock.Since(start).Seconds())
	return d
}

// Resume decides whether a session that is stopped in a member may run there again, under
// its current epoch and as its next run, and reserves capacity for it, in one step. away
// reports whether to wait for the member, which is not ready or no longer in the fleet.
func (c *Cache) Resume(req placement.Request, member v1alpha1.ClusterRef, epoch, run int64) (d placement.Decision, away bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replace(req.UID)
	fleet := c.snapshot([]types.UID{member.UID})
	switch {
	case fleet.Awaits != nil:
		return *fleet.Awaits, false
	case len(fleet.Candidates) == 0:
		return placement.Decision{Message: member.Name + " is no longer a member of the fleet"}, true
	}
	there := &fleet.Candidates[0]
	there.SessionCap = nil // it counts in the member already
	include := c.ledger.Exclude(req.UID, member.UID)
	d = placement.Explain(req, fleet.Candidates, c.ledger)
	include()
	if !d.Placed {
		d.Message = member.Name + " " + d.Verdicts[0].Message
		return d, there.Away
	}
	d.Message = member.Name + ": resumed there, " + d.Verdicts[0].Message
	restore := c.ledger.ReserveAgain(req.UID, epoch, member.UID, req.Template, req.Resources)
	c.placed.decide(req.UID, owner{req.User, req.Namespace}, decision{epoch: epoch, run: run, member: member.UID, restore: restore})
	return d, false
}

// Ordered sets which assignment of a session's epoch the member is to store, by its hash:
// only its acknowledgment counts the capacity that is reserved for a session that runs
// again.
func (c *Cache) Ordered(session types.UID, epoch int64, member types.UID, hash string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ledger.Expect(session, epoch, member, hash)
}

// Reserve reserves capacity in a member for a run of a session that is already placed
// there, as after a restart.
func (c *Cache) Reserve(s *v1alpha1.VDISession, epoch, run int64, member types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reserve(c.ledger, s, epoch, run, member)
}

func reserve(in *placement.Ledger, s *v1alpha1.VDISession, epoch, run int64, member types.UID) {
	template := placement.TemplateKey{Name: s.Spec.Template, Revision: s.Status.TemplateRevision}
	resources := placement.ResourcesOf(s.Status.Resources)
	if run > 1 {
		in.ReserveAgain(s.UID, epoch, member, template, resources)
		return
	}
	in.ReserveFor(s.UID, epoch, member, template, resources)
}

// Release releases the reservation of the last decision on a session if it was not
// written.
func (c *Cache) Release(session types.UID) {
	c.mu.Lock()
	d, ok := c.revert(session)
	c.mu.Unlock()
	if !ok {
		return
	}
	var policies []string
	if d.added && d.policy != "" {
		policies = append(policies, d.policy)
	}
	c.members.SessionsMoved(nil, []types.UID{d.member}, policies)
}

// revert reverts a decision that the hub's cache has not shown, and reports whether there
// was one.
func (c *Cache) revert(session types.UID) (decision, bool) {
	d, ok := c.placed.undo(session)
	switch {
	case ok && d.again():
		d.restore()
	case ok:
		c.ledger.Release(session, d.epoch, d.member)
	}
	return d, ok
}

// replace reverts a decision before another one, and keeps the first, which may have been
// written nevertheless: see correct.
func (c *Cache) replace(session types.UID) {
	if d, ok := c.revert(session); ok && !d.again() {
		c.placed.replaced[session] = d
	}
}
