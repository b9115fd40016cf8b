package link

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// maxLeap is how far above its own a term may be that the hub believes an agent
// to have seen. Terms grow every ten seconds at most, and with each leader: no
// backup is decades old.
const maxLeap = 1 << 27

// raises are the members whose agent has had the hub's term raised. One raise is
// all that an agent needs of a leader: a second would speak of a term that no hub
// ever had, and an agent that lies must not use the terms up.
type raises struct {
	mu sync.Mutex
	by map[types.UID]bool
	// told is the highest term that each member was told by this leader.
	told map[types.UID]int64
}

// tell notes that a member is about to be told a term.
func (r *raises) tell(member types.UID, term int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.told == nil {
		r.told = map[types.UID]int64{}
	}
	r.told[member] = max(r.told[member], term)
}

// anothersTerm reports whether an agent has seen a term that this leader has, or
// had, from another hub. Since a backup there may have been as many leaders, and
// orders, as since its restore, so that a term alone does not tell. One below this
// leader's shows no more than the restore: this hub need not rise above it, so it
// counts where it is proven and the restore is not known yet.
func (s *Server) anothersTerm(member types.UID, seen, ours int64, proof string) bool {
	if s.options.FirstTerm == nil || seen < s.options.FirstTerm() || seen > ours {
		return false
	}
	s.raises.mu.Lock()
	defer s.raises.mu.Unlock()
	if s.raises.told[member] >= seen {
		return false
	}
	return seen == ours || len(s.raises.by) == 0 && s.proves(member, seen, proof)
}

// toldTerm notes that a member is about to be told a term, and returns the proof
// that it is told with.
func (s *Server) toldTerm(member types.UID, term int64) string {
	s.raises.tell(member, term)
	return s.termProof(member, term)
}

// termProof is what an agent is told with a term; empty where there is no key.
func (s *Server) termProof(member types.UID, term int64) string {
	if s.options.TermProof == nil {
		return ""
	}
	return s.options.TermProof(member, term)
}

// proves is whether a proof shows that a member was told a term.
func (s *Server) proves(member types.UID, term int64, proof string) bool {
	return proof != "" && hmac.Equal([]byte(proof), []byte(s.termProof(member, term)))
}

// laterHub is what becomes of an agent that says to have seen a later hub than
// this one. If it proves it, and this hub leads for certain, there is no later one
// beside it: it was restored from a backup, and raises its term. The agent is
// refused all the same, for this connection was opened under the old term, and let
// in at its next attempt.
//
// An agent that does not prove it is refused, and nothing else comes of it:
// nobody's placements wait for the word of one agent.
func (s *Server) laterHub(ctx context.Context, member types.UID, seen int64, proof string, refusal error) error {
	s.raises.mu.Lock()
	defer s.raises.mu.Unlock()
	ours := s.options.HubTerm()
	switch {
	case !s.leading():
		// Another may be the later one.
		return ErrNotLeading
	case s.options.RaiseTerm == nil, s.raises.told[member] >= seen, seen < ours && len(s.raises.by) > 0:
		return refusal
	case !s.proves(member, seen, proof):
		return fmt.Errorf("%w: it reports that it received term %d, and this hub has term %d; if the hub was restored from a backup, "+
			"restore its Secret %s with it, or delete highestHubTerm from the agent's ConfigMap vdi-agent-state and restart the agent; "+
			"if it was not, the agent is not to be trusted", ErrUnprovenTerm, seen, ours, v1alpha1.PlacementKeySecret)
	case seen-ours > maxLeap:
		return fmt.Errorf("%w; no hub can have had it, and the term is not raised: the agent's ConfigMap vdi-agent-state must be corrected", refusal)
	case s.raises.by[member]:
		return fmt.Errorf("%w; the term was raised for this member already, and is not again", refusal)
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.HelloTimeout)
	defer cancel()
	if err := s.options.RaiseTerm(ctx, seen); err != nil {
		return errors.Join(errTrouble, err)
	}
	if s.raises.by == nil {
		s.raises.by = map[types.UID]bool{}
	}
	s.raises.by[member] = true
	return fmt.Errorf("%w; the hub was restored from a backup and has term %d now: the agent is let in at its next attempt", refusal, s.options.HubTerm())
}
