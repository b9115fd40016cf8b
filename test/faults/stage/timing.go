package stage

import (
	"time"

	"github.com/vdi-fleet/vdi-fleet/test/faults/checker"
)

// ConvergeWithin is the limit of G8, which the factor scales.
const ConvergeWithin = time.Minute

// Allowance is for what no factor scales: the start of a process, its caches, the start and end of
// a simulated Pod, two cores for twenty processes.
const Allowance = 15 * time.Second

// MaxQuarantine is the longest quarantine of a member that flapped; the factor scales it.
const MaxQuarantine = 10 * time.Minute

// StoppedWithin is how soon what is left of an older epoch is stopped once its member is reachable
// again; no factor scales it.
const StoppedWithin = 10 * time.Second

// WatchBackoff is how long client-go may wait before it watches again, once an API server is back:
// its backoff doubles up to 30 s, with as much jitter, for the product, the controller manager and
// the simulated kubelets alike.
const WatchBackoff = 60 * time.Second

// failoverTimeFactor is by how much faster time runs in fleets with kubelets: R in production is
// five minutes.
const failoverTimeFactor = 0.75

// The waits of docs/design.md, section 7, in production time: the product's own constants would
// prove nothing.
const (
	Unreachable         = 40 * time.Second
	RestartAfter        = 60 * time.Second
	FenceLease          = 180 * time.Second // L
	PlaceElsewhereAfter = 300 * time.Second // R
	StopSlack           = 70 * time.Second  // S
	RenewalInterval     = 6 * time.Second   // 5 s and their jitter
	SkewBound           = 10 * time.Second
)

// RenewalDelay is how late agents renew a lease on a busy machine; no factor scales it.
const RenewalDelay = 10 * time.Second

// minimumOutage counts from the fault: the last renewal may have been granted just before.
func (s *Stage) minimumOutage() checker.MinimumOutage {
	return checker.MinimumOutage{
		Restart: s.Scaled(Unreachable + RestartAfter - RenewalInterval),
		Fence:   s.Scaled(PlaceElsewhereAfter - RenewalInterval),
		Lease:   s.Scaled(FenceLease - RenewalInterval),
	}
}
