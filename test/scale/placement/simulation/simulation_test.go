package simulation

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/trace"
)

// busy returns the trace of a small, overloaded fleet with many losses.
func busy(seed uint64) *trace.Trace {
	t := trace.Generate(trace.Plan{Seed: seed, Members: 3, Length: 6 * time.Hour, Load: 0.9, OtherPods: 0.2})
	for i := range 12 { // two losses each half hour
		at := time.Duration(i)*time.Hour/2 + time.Duration(seed)*time.Minute
		t.Losses = append(t.Losses,
			trace.Loss{Member: t.Members[i%3].Name, At: at, Lasts: time.Duration(5+40*i) * time.Second},
			trace.Loss{Member: t.Nodes[i].Member, Node: t.Nodes[i].Name, At: at + time.Minute, Lasts: time.Duration(i+1) * time.Minute})
	}
	return t
}

func strategy(s v1alpha1.Strategy) Options {
	o := Defaults()
	o.Strategy = s
	return o
}

var strategies = []v1alpha1.Strategy{
	v1alpha1.StrategySpread, v1alpha1.StrategyBinPack, v1alpha1.StrategyLeastLoaded, v1alpha1.StrategyWeighted,
}

// forever is later than every event.
const forever = 1000 * 24 * time.Hour

func TestNoNodeIsEverOverCommitted(t *testing.T) {
	for i, s := range strategies {
		t.Run(string(s), func(t *testing.T) {
			r := newRun(busy(uint64(i)), strategy(s))
			for r.step(forever) {
				for _, m := range r.members {
					for _, n := range m.nodes {
						checkNode(t, r, n)
					}
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

func checkNode(t *testing.T, r *run, n *node) {
	var sum trace.Size
	for _, p := range n.pods {
		sum.CPU, sum.Memory, sum.GPU = sum.CPU+p.size.CPU, sum.Memory+p.size.Memory, sum.GPU+p.size.GPU
		if p.node != n || p.gone || n.losses > 0 {
			t.Errorf("after %s a Pod is on node %s/%s and should not be", r.now, n.Member, n.Name)
		}
	}
	if sum != n.used {
		t.Errorf("after %s node %s/%s reports %v as used, and its Pods request %v", r.now, n.Member, n.Name, n.used, sum)
	}
	if sum.CPU > n.CPU || sum.Memory > n.Memory || sum.GPU > n.GPU || len(n.pods) > podsPerNode {
		t.Errorf("after %s node %s/%s has %v of %v in use, by %d Pods", r.now, n.Member, n.Name, sum, n.Size, len(n.pods))
	}
}

func TestEverySessionIsSomewhereAndEndsOnce(t *testing.T) {
	r := newRun(busy(5), Defaults())
	for r.step(forever) {
		checkCounts(t, r)
		if t.Failed() {
			return
		}
	}
	if r.result.Failovers == 0 {
		t.Error("no session was ever failed over: the trace tests too little")
	}
	never := 0
	for _, s := range r.sessions {
		switch {
		case s.over && !s.hasNode:
			t.Errorf("session %s is over and never ran", s.Name)
		case !s.over && !s.waits:
			t.Errorf("session %s is neither over nor in line", s.Name)
		case !s.over:
			never++
		}
	}
	if r.result.Finished+never != len(r.sessions) {
		t.Errorf("%d are finished and %d wait, of %d", r.result.Finished, never, len(r.sessions))
	}
	for _, m := range r.members {
		if len(m.copies) > 0 || r.hub.ledger.Outstanding(m.uid) > 0 || r.hub.candidates[m.index].Sessions != 0 {
			t.Errorf("%s has %d copies, %d reservations and %d sessions left in the end",
				m.name, len(m.copies), r.hub.ledger.Outstanding(m.uid), r.hub.candidates[m.index].Sessions)
		}
		for _, n := range m.nodes {
			if n.used != (trace.Size{}) {
				t.Errorf("%v of node %s/%s is still used in the end", n.used, m.name, n.Name)
			}
		}
	}
}

// checkCounts compares what the hub counts of each member with its sessions.
func checkCounts(t *testing.T, r *run) {
	counts := make([]int32, len(r.members))
	for _, s := range r.sessions {
		if s.At > r.now {
			break // sessions are in order of arrival
		}
		if s.member != nil {
			counts[s.member.index]++
		}
		for m := range s.releasing {
			if m != s.member {
				counts[m.index]++
			}
		}
	}
	for i, c := range r.hub.candidates {
		if c.Sessions != counts[i] {
			t.Errorf("after %s the hub counts %d sessions in %s, which holds %d", r.now, c.Sessions, c.Name, counts[i])
		}
	}
}

func TestTheSameTraceGivesTheSameResult(t *testing.T) {
	for _, s := range strategies {
		if diff := cmp.Diff(Run(busy(3), strategy(s)), Run(busy(3), strategy(s))); diff != "" {
			t.Errorf("%s (-once +again):\n%s", s, diff)
		}
	}
}

func TestStrategiesDiffer(t *testing.T) {
	day := trace.Generate(trace.Plan{Seed: 1, Members: 6, Length: 12 * time.Hour, Load: 0.5})
	packed, level := Run(day, strategy(v1alpha1.StrategyBinPack)), Run(day, strategy(v1alpha1.StrategyLeastLoaded))
	if packed.Spread() <= level.Spread() {
		t.Errorf("members differ by %.3f under BinPack and by %.3f under LeastLoaded", packed.Spread(), level.Spread())
	}
}

// fleet returns a trace with members a, b ..., each with nodes of so many CPUs.
func fleet(members ...[]int64) *trace.Trace {
	t := &trace.Trace{}
	for i, nodes := range members {
		name := string(rune('a' + i))
		t.Members = append(t.Members, trace.Member{Name: name, Region: "region-" + name, Weight: 100})
		for n, cpu := range nodes {
			t.Nodes = append(t.Nodes, trace.Node{Name: fmt.Sprint("node-", n), Member: name, Size: trace.Size{CPU: cpu * 1000, Memory: cpu * 8192}})
		}
	}
	return t
}

// sessionOf adds a session that prefers the region of member a.
func sessionOf(t *trace.Trace, at time.Duration, cpu int64, runs time.Duration) {
	t.Sessions = append(t.Sessions, trace.Session{
		Name: fmt.Sprint("s-", len(t.Sessions)), Namespace: "ns", User: "ada", Region: "region-a",
		At: at, Runs: runs, Size: trace.Size{CPU: cpu * 1000, Memory: cpu * 1024},
	})
}

func podOf(t *trace.Trace, member string, at time.Duration, cpu int64, runs time.Duration) {
	t.Pods = append(t.Pods, trace.Pod{Name: fmt.Sprint("p-", len(t.Pods)), Member: member, At: at, Runs: runs, Size: trace.Size{CPU: cpu * 1000, Memory: 1}})
}
