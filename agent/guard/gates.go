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
	// opened is what a gate is told that opens: it hears no more of it than that.
	opened = time.Second
	// fewAsked are not worth looking whether they are still there.
	fewAsked = 100
)

// gates remembers with which number this process has asked the hub about each
// assignment whose gate waited. It is O(the member's sessions).
type gates struct {
	mu    sync.Mutex
	asked map[types.UID]int64
	// asking: a write is under way.
	asking map[types.UID]bool
	// enough are known to look which of them are gone.
	enough int
}

// number is that with which an assignment was asked about; 0: it was not.
func (g *gates) number(assignment types.UID) int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked[assignment]
}

// begin is false while another question about the assignment is being written down.
func (g *gates) begin(assignment types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asking[assignment] {
		return false
	}
	if g.asking == nil {
		g.asked, g.asking, g.enough = map[types.UID]int64{}, map[types.UID]bool{}, fewAsked
	}
	g.asking[assignment] = true
	return true
}

// end is told the number that is durable; 0: none is. It returns whether it is time
// to forget those that are gone.
func (g *gates) end(assignment types.UID, number int64) (full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.asking, assignment)
	if number > 0 {
		g.asked[assignment] = number
	}
	return len(g.asked) > g.enough
}

// keep forgets all but those that are there.
func (g *gates) keep(there map[types.UID]bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid := range g.asked {
		if !there[uid] {
			delete(g.asked, uid)
		}
	}
	g.enough = max(fewAsked, 2*len(g.asked))
}

// open says whether a desktop may start. One of mode Hold may if this process knows
// that the hub stands by its placement: the hub ordered it since the process began,
// or has affirmed it by a number that this process has asked with. All that an
// earlier process knew may be of before a power cut, after which an operator's word
// lets the hub place the session anew.
func (e *Endpoint) open(ctx context.Context, a *v1alpha1.SessionAssignment) (time.Duration, int, string) {
	switch a.Spec.FailoverMode {
	case v1alpha1.FailoverHold:
	case v1alpha1.FailoverFence:
		return 0, http.StatusForbidden, "the session is fenced by now: its Pod is made anew, with a guard"
	default:
		return opened, http.StatusOK, ""
	}
	if e.options.Ordered != nil && e.options.Ordered(a) {
		return opened, http.StatusOK, ""
	}
	const waits = "the hub has not affirmed yet that the session was not placed anew while the agent was off"
	switch number := e.gates.number(a.UID); {
	case number > 0 && a.Spec.Lapse >= number:
		return opened, http.StatusOK, ""
	case number > 0 && a.Status.Lapse >= number:
		return 0, http.StatusForbidden, waits
	}
	if err := e.askHub(ctx, a); err != nil {
		return 0, http.StatusForbidden, "the hub can't be asked yet: " + err.Error()
	}
	return 0, http.StatusForbidden, waits
}

// askHub asks by a number that nobody has asked with before: the assignment's status
// is what the hub is told. The lock makes sure of that, for the cache may be behind;
// then the next question of the gate asks again.
func (e *Endpoint) askHub(ctx context.Context, a *v1alpha1.SessionAssignment) error {
	if !e.gates.begin(a.UID) {
		return nil
	}
	number, durable := max(a.Spec.Lapse, a.Status.Lapse)+1, int64(0)
	defer func() {
		if e.gates.end(a.UID, durable) {
			e.forgetGates(ctx)
		}
	}()
	// Whether it was written is to be known though the gate has no patience.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveTimeout)
	defer cancel()
	before := a.DeepCopy()
	a.Status.Lapse = number
	err := e.options.Client.Status().Patch(ctx, a, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("writing down what it is asked: %w", err)
	}
	durable = number
	log.FromContext(ctx).Info("A held desktop waits until the hub affirms that it was not placed anew",
		"assignment", client.ObjectKeyFromObject(a), "session", a.Spec.Session.Name, "epoch", a.Spec.Epoch, "lapse", number)
	return nil
}

func (e *Endpoint) forgetGates(ctx context.Context) {
	var all v1alpha1.SessionAssignmentList
	if err := e.options.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).V(1).Info("What is gone can't be forgotten yet", "reason", err.Error())
		return
	}
	there := make(map[types.UID]bool, len(all.Items))
	for i := range all.Items {
		there[all.Items[i].UID] = true
	}
	e.gates.keep(there)
}
