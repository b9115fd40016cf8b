package main

import (
	"testing"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// fitting returns a member's verdict in a review, with one score that decides.
func fitting(name string, rank int32, slots int64, score, value string) v1alpha1.ClusterVerdict {
	return v1alpha1.ClusterVerdict{ClusterName: name, Region: name, Fits: true, Rank: rank, Slots: slots, Scores: []v1alpha1.PlacementScore{
		{Name: "PreferredRegion", Value: "0"}, {Name: score, Value: value}, {Name: "Moves", Value: "1"}, {Name: "Hash", Value: "9"}}}
}

func preferring(c v1alpha1.ClusterVerdict, region string) v1alpha1.ClusterVerdict {
	c.Scores[0].Value = region
	return c
}

func TestASessionMovesWhereItIsClearlyBetterOff(t *testing.T) {
	for _, c := range []struct {
		name       string
		here, best v1alpha1.ClusterVerdict
		toRegion   string
		why        string // "" if it stays
	}{
		{"less loaded by half", fitting("eu", 2, 1, "LeastLoaded", "9/10"), fitting("us", 1, 9, "LeastLoaded", "4/10"), "", "LeastLoaded 9/10, there 4/10"},
		{"less loaded by little", fitting("eu", 2, 1, "LeastLoaded", "45/100"), fitting("us", 1, 9, "LeastLoaded", "4/10"), "", ""},
		{"as loaded", fitting("eu", 2, 1, "LeastLoaded", "4/10"), fitting("us", 1, 9, "LeastLoaded", "4/10"), "", ""},
		{"a fuller member to pack", fitting("eu", 2, 1, "BinPack", "9/10"), fitting("us", 1, 9, "BinPack", "4/10"), "", "BinPack 9/10, there 4/10"},
		{"one session fewer", fitting("eu", 2, 1, "Spread", "5"), fitting("us", 1, 9, "Spread", "4"), "", ""},
		{"two fewer", fitting("eu", 2, 1, "Spread", "6"), fitting("us", 1, 9, "Spread", "4"), "", "Spread 6, there 4"},
		{"below its weight's share", fitting("eu", 2, 1, "Weighted", "8/100"), fitting("us", 1, 9, "Weighted", "6/100"), "", "Weighted 8/100, there 6/100"},
		{"a preferred region, however loaded", preferring(fitting("eu", 2, 1, "LeastLoaded", "1/10"), "1"), fitting("us", 1, 9, "LeastLoaded", "8/10"), "", "PreferredRegion 1, there 0"},
		{"a member that takes nothing", v1alpha1.ClusterVerdict{ClusterName: "eu", Filter: "Scheduling", Message: "is cordoned"}, fitting("us", 1, 9, "Spread", "4"), "", "eu is cordoned"},
		{"a member that can't confirm", v1alpha1.ClusterVerdict{ClusterName: "eu", Filter: "Ready", Message: "is unreachable"}, fitting("us", 1, 9, "Spread", "4"), "", ""},
		{"the best already", fitting("eu", 1, 1, "Spread", "2"), fitting("us", 2, 9, "Spread", "4"), "", ""},
		{"to another region than requested", fitting("eu", 2, 1, "Spread", "6"), fitting("us", 1, 9, "Spread", "4"), "ap", ""},
		{"to the requested region", fitting("eu", 2, 1, "Spread", "6"), fitting("us", 1, 9, "Spread", "4"), "us", "Spread 6, there 4"},
		{"a score that is no number", fitting("eu", 2, 1, "Spread", "many"), fitting("us", 1, 9, "Spread", "4"), "", ""},
	} {
		m, moves := newBalance().better("eu", []v1alpha1.ClusterVerdict{c.best, c.here}, c.toRegion)
		if moves != (c.why != "") || m.Why != c.why || moves && (m.From != "eu" || m.To != "us") {
			t.Errorf("%s: %+v, %t", c.name, m, moves)
		}
	}
}

// The hub moves no session that runs to a node that must be added first.
func TestASessionMovesToFreeSlotsOnly(t *testing.T) {
	here, best := fitting("eu", 3, 1, "Spread", "9"), fitting("us", 1, 9, "Spread", "1")
	best.Growable, best.Provisioning = 6, 3
	if m, moves := newBalance().better("eu", []v1alpha1.ClusterVerdict{best, here}, ""); moves {
		t.Errorf("%+v, where no slot is free", m)
	}
	next := fitting("ap", 2, 9, "Spread", "2")
	next.Growable = 8
	b := newBalance()
	if m, moves := b.better("eu", []v1alpha1.ClusterVerdict{best, next, here}, ""); !moves || m.To != "ap" {
		t.Errorf("%+v (%v), want the best with a free slot", m, moves)
	}
	if m, moves := b.better("eu", []v1alpha1.ClusterVerdict{best, next, here}, ""); moves {
		t.Errorf("%+v, where one slot was free", m)
	}
}

func TestMovesStopBeforeTheyTipTheBalance(t *testing.T) {
	for _, c := range []struct {
		name       string
		here, best v1alpha1.ClusterVerdict
		want       int
	}{
		{"ten to none", fitting("eu", 2, 1, "Spread", "10"), fitting("us", 1, 99, "Spread", "0"), 5},
		{"full to empty", fitting("eu", 2, 1, "LeastLoaded", "20/20"), fitting("us", 1, 99, "LeastLoaded", "1/20"), 9},
		{"capacity for three", fitting("eu", 2, 1, "Spread", "10"), fitting("us", 1, 3, "Spread", "0"), 3},
	} {
		b, moves := newBalance(), 0
		for range 50 {
			if _, better := b.better("eu", []v1alpha1.ClusterVerdict{c.best, c.here}, ""); better {
				moves++
			}
		}
		if moves != c.want {
			t.Errorf("%s: %d move, want %d", c.name, moves, c.want)
		}
	}
}
