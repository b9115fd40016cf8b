package placement

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// Explain decides as Place does, and adds a verdict on every candidate.
func Explain(req Request, candidates []Candidate, ledger *Ledger) Decision {
	d := Place(req, candidates, ledger)
	q := newQuery(&req, ledger)
	q.grows = slices.ContainsFunc(candidates, func(c Candidate) bool { return c.Capacity != nil && len(c.Capacity.NodeGroups) > 0 })
	var fitting []fit
	for i := range candidates {
		c := &candidates[i]
		a := ledger.read(i, c)
		failing := firstFailing(q, c, a)
		if failing < 0 {
			fitting = append(fitting, fit{q.score(c, a), a})
			continue
		}
		f := &pipeline[failing]
		l := f.explain(q, c, a)
		d.Verdicts = append(d.Verdicts, v1alpha1.ClusterVerdict{
			ClusterName: c.Name, ClusterUID: c.UID, Region: c.Region,
			Filter: f.name, Message: l.text(l.one),
		})
	}
	slices.SortFunc(d.Verdicts, func(a, b v1alpha1.ClusterVerdict) int {
		return cmp.Or(cmp.Compare(a.ClusterName, b.ClusterName), cmp.Compare(a.ClusterUID, b.ClusterUID))
	})
	d.Verdicts = append(rankedVerdicts(q, fitting), d.Verdicts...)
	return d
}

// fit is a candidate that fits.
type fit struct {
	score
	account *account
}

func rankedVerdicts(q *query, fitting []fit) []v1alpha1.ClusterVerdict {
	slices.SortFunc(fitting, func(a, b fit) int { return a.compare(&b.score) })
	out := make([]v1alpha1.ClusterVerdict, 0, len(fitting))
	for i := range fitting {
		s := &fitting[i]
		v := v1alpha1.ClusterVerdict{
			ClusterName: s.candidate.Name, ClusterUID: s.candidate.UID, Region: s.candidate.Region, Fits: true,
			Message: slotsLeft(s.slots), Slots: s.slots, Rank: int32(i + 1), Scores: s.named(q), //nolint:gosec // a fleet has no billions of members
		}
		if known := s.account.evaluate(q.class); known.growth != nil {
			by := q.byKind(s.candidate, s.account, known)
			v.Slots, v.Provisioning, v.Growable = by[Free]+by[Provisioning]+by[Growable], by[Provisioning], by[Growable]
			v.Message = q.slotsByKind(by, known.growth)
		}
		out = append(out, v)
	}
	return out
}

// placed returns the decision for the best candidate, with the reasons.
func placed(q *query, won selection, candidates int) Decision {
	c := won.best.candidate
	why := append(preferences(q, &won.best), slotsLeft(won.best.slots), rankText(q, won, candidates))
	return Decision{
		Placed: true, Cluster: c.ClusterRef, Region: c.Region,
		Reason:  v1alpha1.ReasonPlaced,
		Message: c.Name + ": " + strings.Join(why, ", "),

		Candidates: candidates, Fit: won.fits, Score: v1alpha1.PlacementScore{Name: q.strategy.name, Value: won.best.strategy.String()},
	}
}

// preferences returns the preferences that the candidate meets.
func preferences(q *query, s *score) []string {
	why := make([]string, 0, 6)
	if q.Home != nil {
		why = append(why, "it holds the user's home")
	}
	if s.region < len(q.PreferredRegions) || s.policyRegion < len(q.policyRegions) {
		why = append(why, "in preferred region "+s.candidate.Region)
	}
	if n := len(q.overflow); n > 0 {
		why = append(why, fmt.Sprintf("in tier %d of %d of %s", s.tier+1, n, q.policyRef()))
	}
	if s.notPreferred == 0 {
		why = append(why, "preferred by the policy")
	}
	if s.image == 1 {
		why = append(why, "it has the image already")
	}
	return why
}

// rankText describes the candidate's rank among the candidates.
func rankText(q *query, won selection, candidates int) string {
	switch {
	case won.fits == 1:
		return fmt.Sprintf("the only one of %d that fits", candidates)
	case won.peers == 1:
		return fmt.Sprintf("the most preferred of %d that fit", won.fits)
	case won.peers < won.fits:
		return fmt.Sprintf("%s of the %d most preferred, of %d that fit", q.strategy.phrase, won.peers, won.fits)
	default:
		return fmt.Sprintf("%s of %d that fit", q.strategy.phrase, won.fits)
	}
}

func slotsLeft(n int64) string {
	if n == 1 {
		return "1 slot left"
	}
	return strconv.FormatInt(n, 10) + " slots left"
}
