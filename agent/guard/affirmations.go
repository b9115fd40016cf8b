package guard

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
)

// +kubebuilder:rbac:groups=vdi.kasm.io,roleName=vdi-agent-sessions,resources=sessionassignments/status,verbs=patch

const (
	// opened is the answer to a gate that may open, which ignores its value.
	opened = time.Second
	// minPrune is the least number of assignments to prune.
	minPrune = 100
)

// affirmations remembers the number with which this process has asked the hub to affirm
// each assignment whose gate waits. It is O(the member's sessions).
type affirmations struct {
	mu      sync.Mutex
	numbers map[types.UID]int64
	writing map[types.UID]bool
	// pruneAt is how many numbers cause the next check which of them are still needed.
	pruneAt int
}

// number returns the number of the request about an assignment, and 0 without one.
func (g *affirmations) number(assignment types.UID) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.numbers[assignment]
}

// begin begins a request, and returns false while another is being written.
func (g *affirmations) begin(assignment types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.writing[assignment] {
		return false
	}
	if g.writing == nil {
		g.numbers, g.writing, g.pruneAt = map[types.UID]int64{}, map[types.UID]bool{}, minPrune
	}
	g.writing[assignment] = true
	return true
}

// end takes the number that is durable, or 0 if none is. It returns whether to prune.
func (g *affirmations) end(assignment types.UID, number int64) (full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.writing, assignment)
	if number > 0 {
		g.numbers[assignment] = number
	}
	return len(g.numbers) > g.pruneAt
}

// prune drops all but the assignments that exist.
func (g *affirmations) prune(there map[types.UID]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid := range g.numbers {
		if !there[uid] {
			delete(g.numbers, uid)
		}
	}
	g.pruneAt = max(minPrune, 2*len(g.numbers))
}

// mayStart decides whether a desktop may start. One of mode Hold may if this process knows
// that the placement is current: the hub ordered it since the process began, or has
// affirmed it by a number of this process. What an earlier process knew may be from before
// a power cut, after which the hub may reschedule the session if an operator declares the
// member fenced.
func (e *Endpoint) mayStart(ctx context.Context, a *v1alpha1.SessionAssignment) (time.Duration, int, string) {
	switch a.Spec.FailoverMode {
	case v1alpha1.FailoverHold:
	case v1alpha1.FailoverFence:
		return 0, http.StatusForbidden, "the session is fenced by now: its Pod is recreated, with a guard"
	default:
		return opened, http.StatusOK, ""
	}
	if e.options.Ordered != nil && e.options.Ordered(a) {
		return opened, http.StatusOK, ""
	}
	const waits = "the hub has not affirmed yet that the session was not rescheduled while the agent was off"
	switch number := e.affirmations.number(a.UID); {
	case number > 0 && a.Spec.Lapse >= number:
		return opened, http.StatusOK, ""
	case number > 0 && a.Status.Lapse >= number:
		return 0, http.StatusForbidden, waits
	}
	if err := e.requestAffirmation(ctx, a); err != nil {
		return 0, http.StatusForbidden, "the hub can't be asked yet: " + err.Error()
	}
	return 0, http.StatusForbidden, waits
}

// requestAffirmation writes a new number to the assignment's status, which is reported to
// the hub. The optimistic lock ensures that it is new, since the cache may be behind: then
// the gate's next request retries.
func (e *Endpoint) requestAffirmation(ctx context.Context, a *v1alpha1.SessionAssignment) error {
	if !e.affirmations.begin(a.UID) {
		return nil
	}
	number, durable := max(a.Spec.Lapse, a.Status.Lapse)+1, int64(0)
	defer func() {
		if e.affirmations.end(a.UID, durable) {
			e.prune(ctx)
		}
	}()
	// The result of the write must be known even if the gate disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveTimeout)
	defer cancel()
	before := a.DeepCopy()
	a.Status.Lapse = number
	err := e.options.Client.Status().Patch(ctx, a, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("requesting the affirmation: %w", err)
	}
	durable = number
	log.FromContext(ctx).Info("A held desktop waits until the hub affirms that it was not rescheduled",
		"assignment", client.ObjectKeyFromObject(a), "session", a.Spec.Session.Name, "epoch", a.Spec.Epoch, "lapse", number)
	return nil
}

func (e *Endpoint) prune(ctx context.Context) {
	var all v1alpha1.SessionAssignmentList
	if err := e.options.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).V(1).Info("Affirmations can't be pruned yet", "reason", err.Error())
		return
	}
	there := make(map[types.UID]bool, len(all.Items))
	for i := range all.Items {
		there[all.Items[i].UID] = true
	}
	e.affirmations.prune(there)
}
