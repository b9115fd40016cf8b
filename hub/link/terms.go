package link

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// maxLeap is how far above the hub's own a term of an agent may be. Terms grow with each
// leader and at most every ten seconds, and no backup is decades old.
const maxLeap = 1 << 27

// terms compares the terms that agents have seen with the hub's.
type terms struct {
	Term
	leading func() bool
	// timeout of a raise.
	timeout time.Duration

	mu sync.Mutex
	// raised are the members for whose agent this leader raised its term. One raise is
	// enough: a second would be for a term that no hub ever had, and an agent that lies
	// must not use up the terms.
	raised map[types.UID]bool
	// sent is the highest term that this leader sent to each member, with its proof.
	sent map[types.UID]sentTerm
}

type sentTerm struct {
	term  int64
	proof string
}

// recordSent records that a term is about to be sent to a member, and returns the proof
// that is sent with it.
func (t *terms) recordSent(member types.UID, term int64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.sent[member]
	if term == last.term && last.proof != "" {
		return last.proof // with each renewal of a lease
	}
	proof := t.proof(member, term)
	if term >= last.term {
		t.sent[member] = sentTerm{term, proof}
	}
	return proof
}

// proof returns the proof that is sent with a term, empty without a key.
func (t *terms) proof(member types.UID, term int64) string {
	if t.Proof == nil {
		return ""
	}
	return t.Proof(member, term)
}

// proves reports whether a proof shows that a member was sent a term.
func (t *terms) proves(member types.UID, term int64, proof string) bool {
	return proof != "" && hmac.Equal([]byte(proof), []byte(t.proof(member, term)))
}

// ofAnotherHub reports whether another hub sent an agent a term that this leader has or
// had: after a backup there may have been as many leaders, and orders, as since its
// restore. A term below this leader's shows only that there was a restore, and requires
// no raise: it counts if it is proven and the restore is not known yet.
func (t *terms) ofAnotherHub(member types.UID, seen, ours int64, proof string) bool {
	if t.First == nil || seen < t.First() || seen > ours {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent[member].term >= seen {
		return false
	}
	return seen == ours || len(t.raised) == 0 && t.proves(member, seen, proof)
}

// laterHub returns the refusal of an agent that reports a later hub than this one. If
// that is proven, and this hub certainly leads, there is no later one: this one was
// restored from a backup, and raises its term. The agent's connection was opened under
// the old term, so it is refused, and admitted at its next attempt.
//
// Without a proof the term is not raised: one agent's claim must not delay placements.
func (t *terms) laterHub(ctx context.Context, member types.UID, seen int64, proof string, refusal error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ours := t.Current()
	switch {
	case !t.leading():
		return ErrNotLeading
	case t.Raise == nil, t.sent[member].term >= seen, seen < ours && len(t.raised) > 0:
		return refusal
	case !t.proves(member, seen, proof):
		return fmt.Errorf("%w: it reports that it received term %d, and this hub has term %d; if the hub was restored from a backup, "+
			"restore its Secret %s with it, or delete highestHubTerm from the agent's ConfigMap vdi-agent-state and restart the agent; "+
			"if it was not, the agent is not to be trusted", ErrUnprovenTerm, seen, ours, v1alpha1.PlacementKeySecret)
	case seen-ours > maxLeap:
		return fmt.Errorf("%w; no hub can have had it, and the term is not raised: the agent's ConfigMap vdi-agent-state must be corrected", refusal)
	case t.raised[member]:
		return fmt.Errorf("%w; the term was raised for this member already, and is not raised again", refusal)
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	if err := t.Raise(ctx, seen); err != nil {
		return errors.Join(errTrouble, err)
	}
	t.raised[member] = true
	return fmt.Errorf("%w; the hub was restored from a backup and has term %d now: the agent is admitted at its next attempt", refusal, t.Current())
}
