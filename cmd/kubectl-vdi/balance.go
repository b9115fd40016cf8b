package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// move is the move of a session to the member where it would be placed now.
type move struct {
	session   *v1alpha1.VDISession
	Session   string      `json:"session"`
	User      string      `json:"user"`
	From      string      `json:"from"`
	To        string      `json:"to"`
	IdleSince metav1.Time `json:"idleSince"`
	Why       string      `json:"why"`
}

// balance is the effect of the selected moves, which the hub's reviews do not include.
type balance struct {
	// added is the change of each member's number of sessions, by name.
	added map[string]int64
}

func newBalance() *balance { return &balance{added: map[string]int64{}} }

// margin is the least difference of a strategy's scores that justifies a move: an absolute amount
// and a share of the score. perSession is the change of the score's numerator by a session.
type margin struct {
	absolute, share float64
	perSession      int64
}

// margins are by the name of the score. Other scores are preferences, of which any difference
// justifies a move.
var margins = map[string]margin{
	string(v1alpha1.StrategyLeastLoaded): {absolute: 0.1, perSession: 1},
	string(v1alpha1.StrategyBinPack):     {absolute: 0.1, perSession: -1},
	string(v1alpha1.StrategySpread):      {absolute: 2, perSession: 1},
	string(v1alpha1.StrategyWeighted):    {share: 0.2, perSession: 1},
}

// noMove are the filters of members that can't confirm the stop of a session, from which the
// hub moves none.
var noMove = map[string]bool{"Ready": true, "Reported": true}

// better returns the move of a session to the best member with a free slot, if that is clearly better
// than its own, and counts it. The hub moves no session that runs to a node that must be added first.
func (b *balance) better(from string, clusters []v1alpha1.ClusterVerdict, toRegion string) (move, bool) {
	var here, best *v1alpha1.ClusterVerdict
	for i := range clusters {
		c := &clusters[i]
		if c.ClusterName == from {
			here = c
		}
		if c.Fits && freeSlots(c) > 0 && (best == nil || c.Rank < best.Rank) {
			best = c
		}
	}
	if here == nil || best == nil || best == here || toRegion != "" && best.Region != toRegion || freeSlots(best) <= b.added[best.ClusterName] {
		return move{}, false
	}
	why, better := b.why(here, best)
	if !better {
		return move{}, false
	}
	b.added[from]--
	b.added[best.ClusterName]++
	return move{From: from, To: best.ClusterName, Why: why}, true
}

// freeSlots returns how many of a member's slots are on nodes that exist.
func freeSlots(c *v1alpha1.ClusterVerdict) int64 { return c.Slots - c.Provisioning - c.Growable }

// why returns why the best member is clearly better than the session's.
func (b *balance) why(here, best *v1alpha1.ClusterVerdict) (string, bool) {
	if !here.Fits {
		return here.ClusterName + " " + here.Message, !noMove[here.Filter]
	}
	for i := range min(len(here.Scores), len(best.Scores)) {
		h, t := here.Scores[i], best.Scores[i]
		text := fmt.Sprintf("%s %s, there %s", h.Name, h.Value, t.Value)
		m, strategy := margins[h.Name]
		if !strategy {
			if h.Value != t.Value {
				return text, true
			}
			continue
		}
		// The scores after the strategy only break ties.
		mine, ok := valueOf(h.Value, m.perSession*b.added[here.ClusterName])
		theirs, same := valueOf(t.Value, m.perSession*b.added[best.ClusterName])
		return text, ok && same && mine-theirs >= m.absolute+m.share*mine
	}
	return "", false
}

// valueOf returns the value of a score, a whole number or a fraction, with an addend to its
// numerator.
func valueOf(text string, addend int64) (float64, bool) {
	numerator, denominator, _ := strings.Cut(text, "/")
	n, err := strconv.ParseInt(numerator, 10, 64)
	d, err2 := strconv.ParseInt(cmp.Or(denominator, "1"), 10, 64)
	if err != nil || err2 != nil || d <= 0 {
		return 0, false
	}
	return float64(n+addend) / float64(d), true
}
