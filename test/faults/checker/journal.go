package checker

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Violation is a guarantee that was not kept.
type Violation struct {
	Guarantee int       `json:"guarantee"`
	Time      time.Time `json:"time"`
	What      string    `json:"what"`
	// Trail is the last observations of the session.
	Trail []string `json:"trail,omitempty"`
}

// String returns the violation on one line.
func (v Violation) String() string {
	return fmt.Sprintf("G%d at %s: %s", v.Guarantee, v.Time.Format("15:04:05.000"), v.What)
}

// journal records the violations, and the last observations of each session.
type journal struct {
	found []Violation
	// reported has the keys of the recorded violations, so that each is recorded once.
	reported map[string]bool
	// trails are the last observations of each session.
	trails map[types.UID][]string
	// observed counts the observations: without any, the absence of violations proves nothing.
	observed int
}

func newJournal() journal {
	return journal{reported: map[string]bool{}, trails: map[types.UID][]string{}}
}

// Violations returns the violations that were found so far.
func (c *journal) Violations() []Violation { return slices.Clone(c.found) }

// Observations returns the number of observations.
func (c *journal) Observations() int { return c.observed }

// trailLength is how many observations of a session are kept.
const trailLength = 40

// record adds an observation to the trail of its session.
func (c *journal) record(now time.Time, session types.UID, what string, fact any) {
	c.observed++
	trail := append(c.trails[session], fmt.Sprintf("%s %s %+v", now.Format("15:04:05.000"), what, fact))
	c.trails[session] = trail[max(0, len(trail)-trailLength):]
}

// Report records a violation, once for each key.
func (c *journal) Report(now time.Time, guarantee int, about types.UID, key, format string, args ...any) {
	key = fmt.Sprintf("%d/%s", guarantee, key)
	if c.reported[key] {
		return
	}
	c.reported[key] = true
	c.found = append(c.found, Violation{Guarantee: guarantee, Time: now, What: fmt.Sprintf(format, args...), Trail: slices.Clone(c.trails[about])})
}
