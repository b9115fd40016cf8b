package simulation

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/placement"
	"github.com/vdi-fleet/vdi-fleet/test/scale/placement/trace"
)

// hub places sessions. All that it has of members came over the link.
type hub struct {
	*run
	policy     v1alpha1.PlacementPolicySpec
	ledger     *placement.Ledger
	candidates []placement.Candidate // by the member's index
	// sequences of the members' latest reports.
	sequences map[types.UID]uint64
	// regions holds each region as a list of one, for Request.PreferredRegions.
	regions map[string][]string
	// pending sessions by class: classes in the order of their creation, and in
	// each the oldest session first.
	pending []*class
}

// class is an equivalence class of pending sessions.
type class struct {
	size     trace.Size
	failover bool
	waiting  []*session
}

func newHub(r *run) *hub {
	h := &hub{
		run: r, ledger: placement.NewLedger(), sequences: map[types.UID]uint64{}, regions: map[string][]string{},
		policy: v1alpha1.PlacementPolicySpec{Strategy: r.options.Strategy, HeadroomPercent: r.options.HeadroomPercent},
	}
	for _, m := range r.trace.Members {
		h.candidates = append(h.candidates, placement.Candidate{
			ClusterRef:        v1alpha1.ClusterRef{Name: m.Name, UID: types.UID(m.Name)},
			MemberClusterSpec: v1alpha1.MemberClusterSpec{Region: m.Region, Weight: ptr.To(m.Weight), HeadroomPercent: r.options.HeadroomPercent},
			Ready:             true,
		})
		h.regions[m.Region] = []string{m.Region}
	}
	for i := range r.trace.Sessions {
		region := r.trace.Sessions[i].Region
		h.regions[region] = []string{region}
	}
	return h
}

// place places a session, or queues it.
func (h *hub) place(s *session) {
	h.dequeue(s)
	if s.over {
		return
	}
	req := s.request(h.now, h)
	began := h.options.Clock()
	d := placement.Place(req, h.candidates, h.ledger)
	h.result.DecisionTimes = append(h.result.DecisionTimes, h.options.Clock().Sub(began))
	if !d.Placed {
		h.queue(s)
		return
	}
	if s.member != nil {
		h.release(s)
	}
	m := h.members[slices.IndexFunc(h.candidates, func(c placement.Candidate) bool { return c.UID == d.Cluster.UID })]
	s.epoch++
	s.member = m
	h.ledger.ReserveFor(s.uid, s.epoch, m.uid, s.template, s.resources)
	if _, held := s.releasing[m]; !held {
		h.candidates[m.index].Sessions++
	}
	h.assign(s)
}

// assign sends the member the order of a session that is placed there.
func (h *hub) assign(s *session) {
	epoch, m := s.epoch, s.member
	m.receive(func() { m.assign(s, epoch) })
}

// release ends a session's placement and orders the member to stop it. The member's
// count is reduced once it has.
func (h *hub) release(s *session) {
	m, epoch := s.member, s.epoch
	s.releasing[m], s.member = epoch, nil
	m.receive(func() { m.withdraw(s, epoch) })
}

func (h *hub) queue(s *session) {
	s.waits = true
	for _, c := range h.pending {
		if c.size == s.Size && c.failover == s.failover {
			i, _ := slices.BinarySearchFunc(c.waiting, s, func(a, b *session) int { return cmp.Compare(a.At, b.At) })
			c.waiting = slices.Insert(c.waiting, i, s)
			return
		}
	}
	h.pending = append(h.pending, &class{size: s.Size, failover: s.failover, waiting: []*session{s}})
}

func (h *hub) dequeue(s *session) {
	if !s.waits {
		return
	}
	s.waits = false
	for _, c := range h.pending {
		if i := slices.Index(c.waiting, s); i >= 0 {
			c.waiting = slices.Delete(c.waiting, i, i+1)
		}
	}
}

// wake places pending sessions that now fit into a member: each class is tried with its first
// session until one does not fit. None blocks another class.
func (h *hub) wake(m *member) {
	one := h.candidates[m.index : m.index+1]
	if !one[0].Ready {
		return
	}
	for _, c := range h.pending {
		for i := 0; i < len(c.waiting); {
			s := c.waiting[i]
			req := s.request(h.now, h)
			if _, no := req.Refused[m.uid]; no {
				i++
				continue
			}
			if !placement.Place(req, one, h.ledger).Placed {
				break
			}
			h.place(s)
		}
	}
}

// reported accepts a member's capacity report.
func (h *hub) reported(m *member, c *placement.Capacity) {
	h.candidates[m.index].Capacity = c
	h.sequences[m.uid] = c.Sequence
	h.ledger.Reported(m.uid, c.Sequence)
	h.wake(m)
}

// stored accepts a member's acknowledgement.
func (h *hub) stored(m *member, s *session, epoch int64, countedFrom uint64) {
	h.ledger.CountedFrom(s.uid, epoch, m.uid, "", countedFrom)
	if s.epoch == epoch {
		s.inRow, s.failover = 0, false
	}
}

// refusedBy handles a refusal: at once the next best, three times in a row; then a backoff.
func (h *hub) refusedBy(m *member, s *session, epoch int64, sequence uint64) {
	h.result.Refusals++
	h.ledger.Release(s.uid, epoch, m.uid)
	if held, ok := s.releasing[m]; ok && held == epoch {
		h.released(m, s)
		return
	}
	if s.epoch != epoch || s.member != m {
		return
	}
	s.member = nil
	h.uncount(m, s)
	s.refused[m.uid] = refusal{until: h.now + refusalLasts, sequence: sequence}
	s.inRow++
	if s.inRow <= refusalsInRow {
		h.place(s)
		return
	}
	pause := min(backoffLeast<<min(s.inRow-refusalsInRow-1, 10), backoffMost)
	h.after(pause, func() {
		if s.member == nil && s.epoch == epoch {
			h.place(s)
		}
	})
}

// unschedulable moves a session whose Pod has never had a node under this placement,
// if it fits another member now.
func (h *hub) unschedulable(m *member, s *session, epoch int64, again time.Duration) {
	if s.epoch != epoch || s.member != m || !m.pendingAgain(s, epoch) {
		return
	}
	req := s.request(h.now, h)
	if req.Refused == nil {
		req.Refused = map[types.UID]string{}
	}
	req.Refused[m.uid] = v1alpha1.ReasonUnschedulablePod
	if !placement.Place(req, h.candidates, h.ledger).Placed {
		h.after(again, func() { h.unschedulable(m, s, epoch, min(2*again, moveMost)) })
		return
	}
	h.result.Moves++
	s.refused[m.uid] = refusal{until: h.now + refusalLasts, sequence: ^uint64(0)}
	h.release(s)
}

// stopped handles that nothing of a session's epoch is left in a member: the session
// is finished, or its released placement has stopped.
func (h *hub) stopped(m *member, s *session, epoch int64) {
	h.ledger.Release(s.uid, epoch, m.uid)
	switch held, releasing := s.releasing[m]; {
	case releasing && held <= epoch:
		h.released(m, s)
		if s.member == nil && !s.waits {
			h.place(s) // it was moved, and waited for this
		}
	case s.member == m && s.epoch == epoch:
		h.dequeue(s)
		s.member, s.over = nil, true
		h.uncount(m, s)
		h.result.Finished++
	}
	h.wake(m)
}

// released handles the confirmation that an earlier placement has stopped.
func (h *hub) released(m *member, s *session) {
	delete(s.releasing, m)
	h.uncount(m, s)
}

// uncount counts a session no longer in a member, unless it is still there.
func (h *hub) uncount(m *member, s *session) {
	if _, held := s.releasing[m]; !held && s.member != m {
		h.candidates[m.index].Sessions--
	}
}
