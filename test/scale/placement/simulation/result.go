package simulation

import (
	"math"
	"slices"
	"time"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/trace"
)

// Result of a run.
type Result struct {
	Strategy v1alpha1.Strategy
	// Samples of utilization, until the end of the trace.
	Samples []Sample
	// Waits of the sessions that got a node, from their arrival until their Pod
	// first had one, sorted.
	Waits []time.Duration
	// NeverPlaced counts the sessions that never had a node.
	NeverPlaced int
	// Finished counts the sessions that ran for all of their time.
	Finished int
	// Refusals by members, Moves of unschedulable sessions, and Failovers, attempted
	// ones included, of sessions of lost members.
	Refusals, Moves, Failovers int
	// DecisionTimes are the durations of the decisions, zero without Options.Clock.
	DecisionTimes []time.Duration
}

// Sample is the utilization at one time. A member's is the share of its CPU or of its
// memory that Pods have requested, whichever is larger; lost nodes and members
// do not count.
type Sample struct {
	At time.Duration
	// Fleet is the utilization of all members together, Spread the standard deviation
	// of the members' utilizations.
	Fleet, Spread float64
}

func (r *run) sample() {
	var total, used trace.Size
	var each []float64
	for _, m := range r.members {
		if m.losses > 0 {
			continue
		}
		t, u := m.utilization()
		each = append(each, share(t, u))
		total.CPU, total.Memory = total.CPU+t.CPU, total.Memory+t.Memory
		used.CPU, used.Memory = used.CPU+u.CPU, used.Memory+u.Memory
	}
	r.result.Samples = append(r.result.Samples, Sample{At: r.now, Fleet: share(total, used), Spread: deviation(each)})
}

func (m *member) utilization() (total, used trace.Size) {
	for _, n := range m.nodes {
		if n.losses > 0 {
			continue
		}
		total.CPU, total.Memory = total.CPU+n.CPU, total.Memory+n.Memory
		used.CPU, used.Memory = used.CPU+n.used.CPU, used.Memory+n.used.Memory
	}
	return total, used
}

func share(total, used trace.Size) float64 {
	if total.CPU == 0 || total.Memory == 0 {
		return 0
	}
	return max(float64(used.CPU)/float64(total.CPU), float64(used.Memory)/float64(total.Memory))
}

func (r *run) conclude() *Result {
	for _, s := range r.sessions {
		if s.hasNode {
			r.result.Waits = append(r.result.Waits, s.landed-s.At)
		} else {
			r.result.NeverPlaced++
		}
	}
	slices.Sort(r.result.Waits)
	return &r.result
}

// Utilization returns the mean and the 95th percentile over time of the fleet's utilization.
func (r *Result) Utilization() (mean, p95 float64) {
	var all []float64
	for _, s := range r.Samples {
		all = append(all, s.Fleet)
	}
	slices.Sort(all)
	return average(all), Quantile(all, 0.95)
}

// Spread returns the mean over time of Sample.Spread.
func (r *Result) Spread() float64 {
	var all []float64
	for _, s := range r.Samples {
		all = append(all, s.Spread)
	}
	return average(all)
}

// Quantile returns a quantile of sorted values, zero if there are none.
func Quantile[T any](sorted []T, q float64) T {
	var none T
	if len(sorted) == 0 {
		return none
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

func average(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum / float64(len(all))
}

func deviation(all []float64) float64 {
	mean, sum := average(all), 0.0
	for _, v := range all {
		sum += (v - mean) * (v - mean)
	}
	if len(all) == 0 {
		return 0
	}
	return math.Sqrt(sum / float64(len(all)))
}
