package observer

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Desktop is the container that must not run twice for a session.
const Desktop = "desktop"

// A Moment is a time of CLOCK_BOOTTIME, which all members of a machine share and which is
// never set.
type Moment time.Duration

// Run is one run of a container, which may have run at any time in [From, To).
type Run struct {
	Member, Node           string
	PodUID, Namespace, Pod string
	Container              string
	Session, Epoch         string
	Restart                int
	From, To               Moment
	// FromWall and ToWall are the same by the wall clock.
	FromWall, ToWall time.Time
	// Open is true if it has no end yet; To is then when its log was last read.
	Open bool
	// StoppedAt is when it got SIGTERM, 0 if it never did, and Why the reason.
	StoppedAt Moment
	Why       string
	// ExitCode is its exit code; CutOff means that a power cut ended it, without one.
	ExitCode int
	CutOff   bool
}

func (r Run) String() string {
	end := r.ToWall.Format(clock)
	if r.Open {
		end = "now"
	}
	return fmt.Sprintf("%s/%s (Pod %s/%s, epoch %s, on %s) from %s to %s",
		r.Member, r.Container, r.Namespace, r.Pod, r.Epoch, r.Node, r.FromWall.Format(clock), end)
}

const clock = "15:04:05.000"

// Overlap is a time in which two desktops of one session ran.
type Overlap struct {
	Session       string
	First, Second Run
	From, To      Moment
}

// Across reports whether the two desktops ran in two members.
func (o Overlap) Across() bool { return o.First.Member != o.Second.Member }

// Length returns the least time that it lasted.
func (o Overlap) Length() time.Duration { return time.Duration(o.To - o.From) }

func (o Overlap) String() string {
	return fmt.Sprintf("session %s ran twice for %s: in %s, and in %s", o.Session, o.Length(), o.First, o.Second)
}

// History is all that ran, as far as the logs show.
type History struct {
	// Runs are ordered by start.
	Runs []Run
	// Until is when the logs were last read: nothing later is recorded.
	Until Moment
	// Torn are the incomplete lines that killed kubelets left.
	Torn []string
}

// Overlaps returns the times in which two desktops of a session ran, in order. may reports
// whether a session may run in two members at once, as Restart sessions do in a network
// partition: then only two Pods in one member are an overlap. A caller that excuses only the
// times of a partition calls it with a nil may too.
func (h History) Overlaps(may func(session string) bool) []Overlap {
	bySession := map[string][]Run{}
	for _, run := range h.Runs {
		if run.Container == Desktop && run.Session != "" {
			bySession[run.Session] = append(bySession[run.Session], run)
		}
	}
	var overlaps []Overlap
	for session, runs := range bySession {
		for i, second := range runs {
			for _, first := range runs[:i] {
				o := Overlap{
					Session: session, First: first, Second: second,
					From: max(first.From, second.From), To: min(first.To, second.To),
				}
				if o.From < o.To && (!o.Across() || may == nil || !may(session)) {
					overlaps = append(overlaps, o)
				}
			}
		}
	}
	slices.SortFunc(overlaps, func(a, b Overlap) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Session, b.Session))
	})
	return overlaps
}

// RanAt returns the desktops of a session that ran at a moment.
func (h History) RanAt(session string, at Moment) []Run {
	return h.Filter(func(r Run) bool {
		there := at < r.To || r.Open && at == r.To
		return r.Session == session && r.Container == Desktop && r.From <= at && there
	})
}

// Of returns all desktops of a session, ordered by start.
func (h History) Of(session string) []Run {
	return h.Filter(func(r Run) bool { return r.Session == session && r.Container == Desktop })
}

// Filter returns the runs for which keep is true.
func (h History) Filter(keep func(Run) bool) []Run {
	var runs []Run
	for _, run := range h.Runs {
		if keep(run) {
			runs = append(runs, run)
		}
	}
	return runs
}
