package stage

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
)

// ConvergeWithin is promise 8's limit, which the factor scales.
const ConvergeWithin = time.Minute

// Allowance is for what no factor scales: a process that starts, its caches, a
// simulated Pod's start and end, two cores for twenty processes.
const Allowance = 15 * time.Second

// MaxQuarantine is how long a member that came and went may be left alone at most;
// the factor scales it.
const MaxQuarantine = 10 * time.Minute

// StoppedWithin is how soon what is left of an older epoch is stopped once its
// member is reachable again; no factor scales it.
const StoppedWithin = 10 * time.Second

// WatchBackoff is how long client-go may wait before it watches again, once an API
// server is back: it doubles up to 30 s and is drawn out by as much again, for the
// product, the controller manager and the simulated kubelets alike.
const WatchBackoff = 60 * time.Second

// failoverTimeFactor is by how much faster time runs in the fleets of these scenarios than
// in the others: an R of production is five minutes.
const failoverTimeFactor = 0.75

// The waits of docs/design.md, section 7, in time of production: what a promise is measured
// against must not be the product's own word.
const (
	Unreachable         = 40 * time.Second
	RestartAfter        = 60 * time.Second
	FenceLease          = 180 * time.Second // L
	PlaceElsewhereAfter = 300 * time.Second // R
	StopSlack           = 70 * time.Second  // S
	RenewalInterval     = 6 * time.Second   // 5 s and their jitter
	SkewBound           = 10 * time.Second
)

// RenewalDelay is how old a lease may be on a busy machine whose agents come late to renew it;
// no factor scales it.
const RenewalDelay = 10 * time.Second

// minimumOutage that the hub must have, counted from a harm: a renewal may have been
// granted for the last time just before.
func (s *Stage) minimumOutage() checker.MinimumOutage {
	return checker.MinimumOutage{Restart: s.Scaled(Unreachable + RestartAfter - RenewalInterval), Fence: s.Scaled(PlaceElsewhereAfter - RenewalInterval)}
}
