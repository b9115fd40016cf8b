package observer

import (
	"cmp"
	"fmt"
	"slices"
)

// life identifies one run of a container.
type life struct {
	member, pod, container string
	restart                int
}

// A ledger converts the records of all logs to runs. Records of one member must be in order;
// those of several may be mixed.
type ledger struct {
	runs []Run
	open map[life]int // index in runs
	torn []string
	// cut are the logs whose kubelet was killed while it wrote a record; the next one must be
	// a boot or a power cut.
	cut map[string]bool
}

func newLedger() *ledger { return &ledger{open: map[life]int{}, cut: map[string]bool{}} }

// tear records an incomplete line of a log.
func (g *ledger) tear(log string, raw []byte) {
	g.torn = append(g.torn, log+": "+string(raw))
	g.cut[log] = true
}

// add applies a record of a log.
func (g *ledger) add(log string, l line) error {
	if g.cut[log] {
		if l.What != boot && l.What != powerOff {
			return fmt.Errorf("%s: a torn line is followed by %s of %s/%s", log, l.What, l.Namespace, l.Pod)
		}
		delete(g.cut, log)
	}
	id := life{l.Member, l.PodUID, l.Container, l.Restart}
	index, running := g.open[id]
	switch l.What {
	case boot, powerOff:
		g.endAll(l)
	case start:
		if running {
			return fmt.Errorf("%s: %s of %s/%s starts while it runs", log, l.Container, l.Namespace, l.Pod)
		}
		g.open[id] = len(g.runs)
		g.runs = append(g.runs, Run{
			Member: l.Member, Node: l.Node, PodUID: l.PodUID, Namespace: l.Namespace, Pod: l.Pod, Container: l.Container,
			Session: l.Session, Epoch: l.Epoch, Restart: l.Restart,
			From: Moment(l.Boottime), FromWall: l.Wall, Open: true,
		})
	case stop, exit:
		if !running {
			return fmt.Errorf("%s: %s of %s of %s/%s, which does not run", log, l.What, l.Container, l.Namespace, l.Pod)
		}
		run := &g.runs[index]
		if l.What == stop {
			run.StoppedAt, run.Why = Moment(l.Boottime), l.Reason
			return nil
		}
		run.To, run.ToWall, run.ExitCode, run.Open = Moment(l.Boottime), l.Wall, l.ExitCode, false
		delete(g.open, id)
	}
	return nil
}

// endAll ends all runs in a member: it is powered off, or was until now.
func (g *ledger) endAll(l line) {
	for id, index := range g.open {
		if id.member == l.Member {
			run := &g.runs[index]
			run.To, run.ToWall, run.CutOff, run.Open = Moment(l.Boottime), l.Wall, true, false
			delete(g.open, id)
		}
	}
}

// history returns what is recorded until a moment.
func (g *ledger) history(until Moment) History {
	h := History{Runs: slices.Clone(g.runs), Until: until, Torn: slices.Clone(g.torn)}
	for i := range h.Runs {
		if h.Runs[i].Open {
			// The run may have started after until was taken.
			h.Runs[i].To = max(until, h.Runs[i].From)
		}
	}
	slices.SortStableFunc(h.Runs, func(a, b Run) int { return cmp.Compare(a.From, b.From) })
	return h
}
