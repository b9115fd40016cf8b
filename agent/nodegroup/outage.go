package nodegroup

import (
	"cmp"
	"fmt"
	"time"
)

// Times are how long a group may do nothing before it counts as exhausted, and how soon it is tried again.
type Times struct {
	// Launches is how long all launches of nodes must fail, by default 15 s: one failure alone may be of one
	// instance type. Launch is how long one may take, by default 1 minute.
	Launches, Launch time.Duration
	// Trigger is how long a Pod waits for a group that adds no node, by default 1 minute.
	Trigger time.Duration
	// Provisioning is how long a node may take, by default 5 minutes, and twice the usual time if that is more.
	Provisioning time.Duration
	// Backoff until the first retry, by default 5 minutes; it doubles up to six times that.
	Backoff time.Duration
}

func (t *Times) setDefaults() {
	t.Launches = cmp.Or(t.Launches, 15*time.Second)
	t.Launch = cmp.Or(t.Launch, time.Minute)
	t.Trigger = cmp.Or(t.Trigger, time.Minute)
	t.Provisioning = cmp.Or(t.Provisioning, 5*time.Minute)
	t.Backoff = cmp.Or(t.Backoff, 5*time.Minute)
}

// outage is that a group adds no nodes, and the failed launches that may become one. It is in memory only:
// a new process tries the group once.
type outage struct {
	// reason is "" if the group adds nodes.
	reason, message string
	// retry is when one session may try it again; failures counts how often in a row it has failed.
	retry    time.Time
	failures int

	// firstFailure and lastFailure of a launch since one succeeded, with the message of the last.
	firstFailure, lastFailure time.Time
	launchMessage             string

	// awaited is since when nodes that cluster-autoscaler has requested do not register, and none of the group has
	// become usable; zero if none are requested.
	awaited time.Time
}

// await records how many nodes are requested that have not registered, and returns since when.
func (o *outage) await(requested int32, now time.Time) time.Time {
	if requested == 0 {
		o.awaited = time.Time{}
	} else if o.awaited.IsZero() {
		o.awaited = now
	}
	return o.awaited
}

// failedLaunch records that a node was requested and not provided.
func (o *outage) failedLaunch(message string, now time.Time) {
	if o.firstFailure.IsZero() || o.firstFailure.Before(o.retry) {
		o.firstFailure = now
	}
	o.lastFailure, o.launchMessage = now, message
}

// launched records that the cloud has provided a node.
func (o *outage) launched() {
	o.firstFailure, o.lastFailure, o.launchMessage = time.Time{}, time.Time{}, ""
}

// recover ends the outage, since a node has become usable. Those that are still requested have their whole time.
func (o *outage) recover(now time.Time) {
	awaited := o.awaited
	if !awaited.IsZero() {
		awaited = now
	}
	*o = outage{awaited: awaited}
}

// observe updates the outage of a group by its nodes, and the Pods that wait for it.
func (g *group) observe(s *survey, waiting Waiting, now time.Time, times *Times) {
	if s.problem != "" {
		return
	}
	if g.gained(s) {
		g.ready = now
		g.outage.recover(now)
	}
	if s.autoscaled {
		g.follow(s, now, times)
		return
	}
	if reason, message := g.failure(s, waiting, now, times); reason != "" {
		g.outage.fail(reason, message, now, times.Backoff)
	}
}

// gained reports whether a node has become usable.
func (g *group) gained(s *survey) bool {
	before := g.usable
	g.usable = make(map[string]bool, len(s.usable))
	gained := false
	for _, name := range s.usable {
		gained = gained || !before[name]
		g.usable[name] = true
	}
	return gained
}

// follow takes the state of cluster-autoscaler, which retries by itself. It reports the nodes that do not become
// usable only after 15 minutes.
func (g *group) follow(s *survey, now time.Time, times *Times) {
	o := &g.outage
	o.reason, o.message = "", ""
	if s.backedOff {
		o.reason, o.message = ReasonInsufficientCapacity, s.backoff
		return
	}
	for i := range s.provisioning {
		if p := &s.provisioning[i]; g.overdue(p, now, times) && !g.ready.After(p.since) {
			o.reason, o.message = ReasonProvisioningTimeout, p.lateText(g.patience(times))
			return
		}
	}
}

// lateText explains that a node does not become usable.
func (p *provisioning) lateText(patience time.Duration) string {
	if name := cmp.Or(p.Node, p.Name); name != "" {
		return fmt.Sprintf("node %s did not become usable within %s", name, patience)
	}
	return fmt.Sprintf("no node that was requested has registered within %s", patience)
}

// failure returns why the group adds no nodes, "" if nothing says so. What it did before the last retry
// does not count.
func (g *group) failure(s *survey, waiting Waiting, now time.Time, times *Times) (reason, message string) {
	o := &g.outage
	since := func(t time.Time) time.Duration {
		if t.Before(o.retry) {
			t = o.retry
		}
		return now.Sub(t)
	}
	if !o.firstFailure.Before(o.retry) && o.lastFailure.Sub(o.firstFailure) >= times.Launches {
		return ReasonInsufficientCapacity, cmp.Or(o.launchMessage,
			"Karpenter has deleted each NodeClaim before it was launched: their events InsufficientCapacityError name the cause")
	}
	for i := range s.provisioning {
		p := &s.provisioning[i]
		switch {
		case p.since.Before(o.retry):
		case !p.launched && now.Sub(p.since) >= times.Launch:
			return ReasonInsufficientCapacity, cmp.Or(p.message, fmt.Sprintf("NodeClaim %s was not launched within %s", p.Name, times.Launch))
		case g.overdue(p, now, times) && !g.ready.After(p.since):
			return ReasonProvisioningTimeout, p.lateText(g.patience(times))
		}
	}
	if len(waiting.Pods) > 0 && len(s.provisioning) == 0 && since(waiting.Since) >= times.Trigger && since(g.ready) >= times.Trigger {
		return ReasonNotTriggered, fmt.Sprintf("the autoscaler has added no node within %s for a Pod that waits for one: is it running, and may it add one for this Pod?", times.Trigger)
	}
	return "", ""
}

// patience is how long a node may take.
func (g *group) patience(times *Times) time.Duration {
	return max(2*g.usual.time(g.ProvisioningTime), times.Provisioning)
}

// overdue reports whether a node takes too long to be counted on.
func (g *group) overdue(p *provisioning, now time.Time, times *Times) bool {
	return now.Sub(p.since) >= g.patience(times)
}

// fail records that the group adds no nodes. While it waits for its retry, nothing changes.
func (o *outage) fail(reason, message string, now time.Time, backoff time.Duration) {
	if o.reason != "" && now.Before(o.retry) {
		return
	}
	o.launched()
	o.reason, o.message = reason, message
	o.failures++
	o.retry = now.Add(min(backoff<<min(o.failures-1, 10), 6*backoff))
}

// describe writes the outage into the state of a group that may have so many more nodes. From its retry on
// it adds one.
func (o *outage) describe(out *Group, s *survey, more int32, now time.Time) {
	out.State, out.Reason, out.Message = StateExhausted, o.reason, o.message
	if o.retry.IsZero() {
		return
	}
	if now.Before(o.retry) {
		out.RetryTime = o.retry
		return
	}
	out.Growable = min(1, more)
	for i := range s.provisioning {
		if !s.provisioning[i].since.Before(o.retry) {
			out.Growable = 0
		}
	}
}
