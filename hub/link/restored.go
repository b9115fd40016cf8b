package link

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// maxLeap is how far above its own a term may be that the hub believes an agent
// to have seen. Terms count leaders: no backup is a million of them old.
const maxLeap = 1 << 20

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

// anothersTerm is whether an agent has seen this leader's term as somebody
// else's. Between a backup and its restore there may have been as many leaders as
// have begun to lead since, so that a term alone does not tell.
func (s *Server) anothersTerm(member types.UID, seen, ours int64) bool {
	if !s.options.UniqueTerms || seen != ours {
		return false
	}
	s.raises.mu.Lock()
	defer s.raises.mu.Unlock()
	return s.raises.told[member] != ours
}

// laterHub is what becomes of an agent that has seen a later hub than this one.
// A hub that leads for certain has no later one beside it: it was restored from a
// backup, and raises its term. The agent is refused all the same, for this
// connection was opened under the old term, and let in at its next attempt.
func (s *Server) laterHub(ctx context.Context, member types.UID, seen int64, refusal error) error {
	s.raises.mu.Lock()
	defer s.raises.mu.Unlock()
	ours := s.options.HubTerm()
	switch {
	case !s.leading():
		// Another may be the later one.
		return ErrNotLeading
	case s.options.RaiseTerm == nil, seen < ours:
		return refusal
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
