package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// The configured waits (docs/design.md, section 7), unscaled, and the rates of the rate
// limit per second, which are never scaled.
const (
	renewal      = 5 * time.Second
	unreachable  = 40 * time.Second
	restartAfter = 60 * time.Second
	regain       = 300 * time.Second
	fleetRate    = 20
	targetRate   = 10
)

// rate returns that of the failover rate limit, with this fleet's targets.
func (l *loss) rate() int { return min(fleetRate, targetRate*(len(l.fleet.Members)-1)) }

// limited returns how long the rate limit delays the last session.
func (l *loss) limited() time.Duration {
	seconds := max(float64(l.sessions)/float64(l.rate()), float64(l.atOneTarget)/targetRate)
	return time.Duration(seconds*1000) * time.Millisecond
}

// print prints the phases.
func (l *loss) print(context.Context) error {
	var out io.Writer = os.Stdout
	limited := l.limited()
	lost, due := l.scaled(unreachable), l.scaled(unreachable+restartAfter)
	decided := l.times(func(w *way) time.Time { return w.decided })
	_, _ = fmt.Fprintf(out, "\n%d sessions of %s, timings x %g: Unreachable %s after the last renewal (each %s), a Restart session waits %s more, then %d a second (the failover rate limit)\n\n",
		l.sessions, l.dying.Name, l.factor, lost, l.scaled(renewal), l.scaled(restartAfter), l.rate())
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "phase\tfirst\tmedian\tlast\tpolicy: first\tpolicy: last\tours: first\tours: last\t")
	found := l.detected.Sub(l.died)
	row(table, "detected (Unreachable)", []time.Duration{found}, lost, lost)
	row(table, "decided (rescheduled)", decided, due, due+limited)
	row(table, "assigned (stored there)", l.times(func(w *way) time.Time { return w.assigned }), due, due+limited)
	row(table, "Running", l.times(func(w *way) time.Time { return w.running }), due, due+limited)
	_ = table.Flush()
	_, _ = fmt.Fprintf(out, "\nall counted from the member's death; its last renewal may have been up to %s earlier, so that a difference may be less than 0\n", l.scaled(renewal*11/10))
	steps := func(name string, from, to func(*way) time.Time) {
		took := l.between(from, to)
		_, _ = fmt.Fprintf(out, "%s: median %s, p99 %s, max %s a session\n", name, short(took[len(took)/2]), short(took[len(took)*99/100]), short(took[len(took)-1]))
	}
	steps("decided to assigned", func(w *way) time.Time { return w.decided }, func(w *way) time.Time { return w.assigned })
	steps("assigned to Running", func(w *way) time.Time { return w.assigned }, func(w *way) time.Time { return w.running })
	spread := decided[len(decided)-1] - decided[0]
	_, _ = fmt.Fprintf(out, "rescheduled at %.1f a second, of the %d that the rate limit allows\n", float64(l.sessions)/spread.Seconds(), l.rate())
	return nil
}

func row(table io.Writer, phase string, seen []time.Duration, policyFirst, policyLast time.Duration) {
	first, last := seen[0], seen[len(seen)-1]
	_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", phase, short(first), short(seen[len(seen)/2]), short(last),
		short(policyFirst), short(policyLast), short(first-policyFirst), short(last-policyLast))
}

func short(d time.Duration) string { return fmt.Sprintf("%.2fs", d.Seconds()) }

// times returns the times of one step since the member's death, sorted.
func (l *loss) times(of func(*way) time.Time) []time.Duration {
	return l.between(func(*way) time.Time { return l.died }, of)
}

func (l *loss) between(from, to func(*way) time.Time) []time.Duration {
	var took []time.Duration
	for _, w := range l.seen {
		took = append(took, to(w).Sub(from(w)))
	}
	slices.Sort(took)
	return took
}
