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

// maxLeap is how far above its own a term may be that the hub accepts an agent to
// have seen. Terms grow every ten seconds at most, and with each leader: no
// backup is decades old.
const maxLeap = 1 << 27

// terms compares the terms that agents have seen with the hub's.
type terms struct {
	Term
	leading func() bool
	// timeout of a raise.
	timeout time.Duration

	mu sync.Mutex
	// raised are the members whose agent has had the hub's term raised. One raise is
	// all that an agent needs of a leader: a second would claim a term that no hub
	// ever had, and an agent that lies must not use the terms up.
	raised map[types.UID]bool
	// sent is the highest term that this leader sent to each member.
	sent map[types.UID]int64
}

// send records that a member is about to be sent a term, and returns the proof that
// is sent with it.
func (t *terms) send(member types.UID, term int64) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent[member] = max(t.sent[member], term)
	return t.proof(member, term)
}

// proof returns what an agent is sent with a term; empty where there is no key.
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

// ofAnotherHub reports whether an agent has seen a term that this leader has, or
// had, from another hub. Since a backup there may have been as many leaders, and
// orders, as since its restore, so a term alone does not show it. One below this
// leader's shows no more than the restore: this hub need not rise above it, so it
// counts where it is proven and the restore is not known yet.
func (t *terms) ofAnotherHub(member types.UID, seen, ours int64, proof string) bool {
	if t.First == nil || seen < t.First() || seen > ours {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent[member] >= seen {
		return false
	}
	return seen == ours || len(t.raised) == 0 && t.proves(member, seen, proof)
}

// laterHub returns why an agent is refused that reports a later hub than this one.
// If the report is proven, and this hub certainly leads, there is no later one: this
// one was restored from a backup, and raises its term. The agent is refused all the
// same, since its connection was opened under the old term, and let in at its next
// attempt.
//
// Without a proof the agent is refused and nothing else happens: one agent's claim
// must not delay placements.
func (t *terms) laterHub(ctx context.Context, member types.UID, seen int64, proof string, refusal error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	ours := t.Current()
	switch {
	case !t.leading():
		// Another may be the later one.
		return ErrNotLeading
	case t.Raise == nil, t.sent[member] >= seen, seen < ours && len(t.raised) > 0:
		return refusal
	case !t.proves(member, seen, proof):
		return fmt.Errorf("%w: it reports that it received term %d, and this hub has term %d; if the hub was restored from a backup, "+
			"restore its Secret %s with it, or delete highestHubTerm from the agent's ConfigMap vdi-agent-state and restart the agent; "+
			"if it was not, the agent is not to be trusted", ErrUnprovenTerm, seen, ours, v1alpha1.PlacementKeySecret)
	case seen-ours > maxLeap:
		return fmt.Errorf("%w; no hub can have had it, and the term is not raised: the agent's ConfigMap vdi-agent-state must be corrected", refusal)
	case t.raised[member]:
		return fmt.Errorf("%w; the term was raised for this member already, and is not again", refusal)
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	if err := t.Raise(ctx, seen); err != nil {
		return errors.Join(errTrouble, err)
	}
	t.raised[member] = true
	return fmt.Errorf("%w; the hub was restored from a backup and has term %d now: the agent is let in at its next attempt", refusal, t.Current())
}
