package cluster

import (
	"fmt"
	"slices"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vdi-fleet/vdi-fleet/api/v1alpha1"
	"github.com/vdi-fleet/vdi-fleet/hub/link/protocol"
)

// Bounds limit what one agent can make the hub store about its member.
type Bounds struct {
	// MaxItems limits the sessions that the hub placed in the member, or whose proof is in
	// the report; MaxBytes limits the texts of all items.
	MaxItems, MaxBytes int
	// MaxOrphans limits the assignments of other sessions. The whole report is kept for
	// MaxVisible of them, with MaxVisibleBytes in total.
	MaxOrphans, MaxVisible, MaxVisibleBytes int
}

// defaultBounds allow a report of each of 200,000 sessions some 1.3 KiB of texts; a normal
// one has about half of that.
var defaultBounds = Bounds{
	MaxItems: protocol.MaxInventory, MaxBytes: 256 << 20,
	MaxOrphans: 10_000, MaxVisible: 1000, MaxVisibleBytes: 4 << 20,
}

// keeping is the decision about a report.
type keeping int

const (
	// keepAll stores its object in the cache.
	keepAll keeping = iota
	// keepHash is for an orphan beyond the visible ones. It counts in the digests, so that
	// both sides agree, and is not in the cache.
	keepHash
	// evict is keepHash for a visible orphan that no longer fits: its object is dropped
	// from the cache.
	evict
	// keepNothing is for a report beyond the bounds; the stream ends.
	keepNothing
)

// quota decides which reports a member's cache keeps. The cache's lock protects all
// fields except seen.
type quota struct {
	*Bounds
	// isKnown reports whether the hub placed a session in the member, or the proof shows
	// it. It acquires the fleet's lock. If nil, every session counts as known.
	isKnown func(session types.UID, epoch int64, proof string) bool
	// placed reports whether the hub placed a session in the member.
	placed func(session types.UID) bool

	// textBytes is the size of all items' texts.
	textBytes int
	// names of known sessions' assignments. A session has one: an agent can't multiply its
	// sessions by inventing names.
	names map[types.UID]types.NamespacedName
	// visible are the orphans in the cache, with their sizes, and visibleBytes the sum;
	// hidden are all others, with their shares of the digest of the assigned set.
	visible      map[types.NamespacedName]int
	visibleBytes int
	hidden       map[types.NamespacedName]uint64
	// hiddenSum is the sum of hidden.
	hiddenSum uint64
	// excess is the reason why the stream must end, or nil.
	excess error
	// seen are the orphans of the last report, for conditions; read without the lock.
	seen atomic.Pointer[orphans]
}

// orphans are assignments in a member that the hub did not place there and that have no
// proof. The hub does not stop them.
type orphans struct {
	count int
	// some of them, namespace/name.
	some []string
}

// maxOrphanNames is how many a condition names.
const maxOrphanNames = 3

// keep decides what to keep of a report of an assignment for which the cache has old, and
// accounts for it. The caller stores it.
func (q *quota) keep(key types.NamespacedName, old, item *v1alpha1.SessionAssignment) keeping {
	switch {
	case q.excess != nil:
		return keepNothing
	case q.known(key, item):
		return q.keepKnown(key, old, item)
	}
	return q.keepOrphan(key, old, item)
}

// known reports whether the hub has a reason to keep a report: its session is known,
// under no other name.
func (q *quota) known(key types.NamespacedName, item *v1alpha1.SessionAssignment) bool {
	session := item.Spec.Session.UID
	if name, named := q.names[session]; named {
		// Also if the session is no longer in the member: its end is still to be reported.
		return name == key
	}
	return q.isKnown == nil || q.isKnown(session, item.Spec.Epoch, item.Spec.Proof)
}

// keepWithoutObject decides, as keep does, on a report whose object is not stored.
func (q *quota) keepWithoutObject(key types.NamespacedName, old, bare *v1alpha1.SessionAssignment) keeping {
	switch {
	case q.excess != nil:
		return keepNothing
	case old != nil:
		return keepAll
	case q.known(key, bare):
		return q.keepKnown(key, nil, bare)
	}
	return q.hide(key, bare)
}

func (q *quota) keepKnown(key types.NamespacedName, old, item *v1alpha1.SessionAssignment) keeping {
	session := item.Spec.Session.UID
	_, named := q.names[session]
	switch {
	case !named && len(q.names) >= q.MaxItems:
		return q.exceeded("%d assignments of sessions that the hub placed there", q.MaxItems)
	case q.textBytes+sizeOf(item)-sizeOf(old) > q.MaxBytes:
		return q.exceeded("%d MiB of status", q.MaxBytes>>20)
	}
	q.forgetOrphan(key)
	q.names[session] = key
	return keepAll
}

func (q *quota) keepOrphan(key types.NamespacedName, old, item *v1alpha1.SessionAssignment) keeping {
	was, isVisible := q.visible[key]
	size := sizeOf(item)
	switch {
	case old != nil && q.names[old.Spec.Session.UID] == key:
		// It would replace a session's own report.
		return q.hide(key, item)
	case isVisible && q.visibleBytes+size-was <= q.MaxVisibleBytes,
		!isVisible && len(q.visible) < q.MaxVisible && q.visibleBytes+size <= q.MaxVisibleBytes:
		q.forgetOrphan(key)
		q.visible[key], q.visibleBytes = size, q.visibleBytes+size
		return keepAll
	case isVisible:
		q.forgetOrphan(key)
		if kept := q.hide(key, item); kept != keepHash {
			return kept
		}
		return evict
	}
	return q.hide(key, item)
}

func (q *quota) hide(key types.NamespacedName, item *v1alpha1.SessionAssignment) keeping {
	if _, again := q.hidden[key]; !again && len(q.visible)+len(q.hidden) >= q.MaxOrphans {
		return q.exceeded("%d assignments that the hub did not place there", q.MaxOrphans)
	}
	hash := assignedHash(item)
	q.hiddenSum += hash - q.hidden[key]
	q.hidden[key] = hash
	return keepHash
}

// excessRemedy is the operator's remedy for an agent that reports too much.
const excessRemedy = "list its assignments with kubectl get sessionassignments -A in the member, and delete those that no session of the hub needs; " +
	"if there are fewer, the agent is not to be trusted: revoke it (spec.access)"

// exceeded returns the error that ends the stream of an agent that reports too much.
func exceeded(format string, args ...any) error {
	return fmt.Errorf("%w: it reports more than "+format+"; "+excessRemedy, append([]any{protocol.ErrExcess}, args...)...)
}

func (q *quota) exceeded(format string, args ...any) keeping {
	q.excess = exceeded(format, args...)
	return keepNothing
}

// forgetOrphan removes a name from the orphans.
func (q *quota) forgetOrphan(key types.NamespacedName) {
	q.visibleBytes -= q.visible[key]
	delete(q.visible, key)
	q.unhide(key)
}

func (q *quota) unhide(key types.NamespacedName) {
	q.hiddenSum -= q.hidden[key]
	delete(q.hidden, key)
}

// forgetUnreported drops names that are neither in the cache nor reported any more.
func (q *quota) forgetUnreported(reported, shown func(types.NamespacedName) bool) {
	for key := range q.hidden {
		if !reported(key) {
			q.forgetOrphan(key)
		}
	}
	for session, key := range q.names {
		if !reported(key) && !shown(key) {
			delete(q.names, session)
		}
	}
}

// recount updates the sizes when an item replaces another; either may be nil.
func (q *quota) recount(key types.NamespacedName, old, next *v1alpha1.SessionAssignment) {
	q.textBytes += sizeOf(next) - sizeOf(old)
	if was, shown := q.visible[key]; shown {
		if next == nil {
			q.forgetOrphan(key)
		} else {
			q.visible[key] = sizeOf(next)
			q.visibleBytes += sizeOf(next) - was
		}
	}
	if old != nil && q.names[old.Spec.Session.UID] == key && (next == nil || next.Spec.Session.UID != old.Spec.Session.UID) {
		delete(q.names, old.Spec.Session.UID)
	}
}

// recordOrphans replaces the snapshot of the orphans if their number has changed.
func (q *quota) recordOrphans() {
	now := &orphans{count: len(q.visible) + len(q.hidden)}
	if before := q.seen.Load(); before != nil && before.count == now.count {
		return
	}
	for key := range q.visible {
		if len(now.some) < maxOrphanNames {
			now.some = append(now.some, key.String())
		}
	}
	slices.Sort(now.some)
	q.seen.Store(now)
}

// itemOverhead is the cost of a list entry in addition to its texts, in bytes.
const itemOverhead = 64

// sizeOf returns the size of an item's texts in bytes; the fixed cost of each item is
// bounded by their number.
func sizeOf(item *v1alpha1.SessionAssignment) int {
	if item == nil {
		return 0
	}
	s := &item.Status
	n := len(item.Namespace) + len(item.Name) + len(item.Spec.Session.UID) + len(item.Spec.Session.Namespace) +
		len(item.Spec.Session.Name) + len(item.Spec.Proof) + len(s.State) + len(s.Reason) + len(s.Message) + len(s.NodeName)
	for key, value := range item.Annotations {
		n += len(key) + len(value)
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		n += itemOverhead + len(c.Type) + len(c.Reason) + len(c.Message)
	}
	for _, name := range s.MissingSecrets {
		n += itemOverhead + len(name)
	}
	if s.Failure != nil {
		n += itemOverhead + len(s.Failure.Reason) + len(s.Failure.Message)
	}
	if s.Config != nil {
		n += itemOverhead + len(s.Config.Name) + len(s.Config.Hash)
	}
	return n
}
