package member

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link"
	"github.com/vdi-fleet/vdi-fleet/hub/member/health"
)

const messageFenced = "it was declared fenced"

// unfenceWait bounds how long a returning agent waits until the API server has stored that
// its member is no longer declared fenced. Agents wait 10 s for their welcome.
const unfenceWait = 5 * time.Second

// fence is an operator's declaration that nothing runs in a member any more.
//
// It ends when the member's agent returns. The next leader would read the declaration, but
// not the agent's return. So no agent is admitted, and no lease granted, before the API
// server has stored that the declaration is removed. Until then the agent starts nothing
// that may have been placed elsewhere.
type fence struct {
	// declared is the declaration, or nil.
	declared *v1alpha1.FencedDeclaration
	// from is when this hub begins to act on it. A hub without heartbeats of the member
	// first waits as long as for an Unreachable member: the agent may have returned to an
	// earlier leader.
	from time.Time
	// other is set if the declaration is for another cluster than the member's.
	other bool
	// alive is set if the member's agent has returned since, or was connected.
	alive bool
	// changed is closed when the declaration changes, and nil if no agent waits for that.
	changed chan struct{}
}

// declare applies the spec's declaration. alive is set if the member's agent is connected,
// and from is when the declaration begins to count.
func (f *fence) declare(d *v1alpha1.FencedDeclaration, alive bool, from time.Time) {
	if equality.Semantic.DeepEqual(f.declared, d) {
		return
	}
	f.declared, f.alive, f.from = d.DeepCopy(), d != nil && alive, from
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// refusesAgent reports whether the member's agent is refused until the declaration is removed.
func (f *fence) refusesAgent() bool { return f.declared != nil && !f.other }

// inEffect reports whether the member's sessions may be placed elsewhere at once.
func (f *fence) inEffect(now time.Time) bool {
	return f.refusesAgent() && !f.alive && !now.Before(f.from)
}

// refuseFenced records that the agent of a member that is declared fenced has returned, and
// refuses it for now.
func (m *member) refuseFenced(t health.Timings, now time.Time) error {
	m.heartbeats.Connected(t, now)
	m.heartbeat(now)
	return link.ErrFenced
}

// unfenced waits up to unfenceWait for a change of a member's declaration. It reports
// whether there was one.
func (f *Directory) unfenced(ctx context.Context, uid types.UID) bool {
	f.mu.Lock()
	m := f.uids[uid]
	if m == nil || !m.fence.refusesAgent() {
		f.mu.Unlock()
		return m != nil
	}
	if m.fence.changed == nil {
		m.fence.changed = make(chan struct{})
	}
	changed := m.fence.changed
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, f.unfenceWait)
	defer cancel()
	select {
	case <-changed:
		return true
	case <-ctx.Done():
		return false
	}
}
